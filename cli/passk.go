package cli

// passAtK is the probability that at least one of k replies, drawn without
// replacement from n of which c pass, passes: 1 - C(n-c, k) / C(n, k).
//
// Source: the unbiased estimator of pass@k of Chen et al. 2021 ("Evaluating
// Large Language Models Trained on Code", section 2.1), as the product
// 1 - Π_{i=n-c+1..n} (1 - k/i).
func passAtK(n, c, k int) float64 {
	if n-c < k {
		return 1
	}
	fail := 1.0
	for i := n - c + 1; i <= n; i++ {
		fail *= 1 - float64(k)/float64(i)
	}
	return 1 - fail
}
