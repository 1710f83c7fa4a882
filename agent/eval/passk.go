package eval

// PassAtK is pass@k, the probability that at least one of k samples of a task
// succeeds, of n samples of which c succeeded. Its unbiased estimator is
//
//	pass@k = 1 - C(n-c, k) / C(n, k)
//
// (Chen et al., "Evaluating Large Language Models Trained on Code",
// arXiv:2107.03374, section 2.1), here as the product that does not overflow:
// 1 - Π_{i=n-c+1..n} (1 - k/i). It wants k ≤ n: fewer samples say nothing about
// pass@k, so such a task is left out.
func PassAtK(n, c, k int) float64 {
	if n-c < k {
		return 1
	}
	none := 1.0
	for i := n - c + 1; i <= n; i++ {
		none *= 1 - float64(k)/float64(i)
	}
	return 1 - none
}

// PassKs are the k that are reported for n samples: the powers of two, and n.
func PassKs(n int) []int {
	var ks []int
	for k := 1; k < n; k *= 2 {
		ks = append(ks, k)
	}
	return append(ks, n)
}
