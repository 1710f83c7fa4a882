package run

import "slices"

// bestAtK is best@k, the largest score that is to be expected of k replies to a
// row, of n replies that were scored. Its unbiased estimator is the mean of the
// largest score over all choices of k of the n,
//
//	best@k = Σ_{i=k..n} C(i-1, k-1) / C(n, k) · s_i,    s_1 ≤ … ≤ s_n
//
// (s_i is the largest in C(i-1, k-1) of the choices). Of scores that are 0 or 1
// it is pass@k as Chen et al. estimate it (eval.PassAtK), which the largest of
// the first k would not be. The weights are made one of the other, from k/n for
// the largest down, so that no binomial overflows. It wants k ≤ n.
//
// Differs from verl, which draws 1000 times with replacement: that finds the
// best reply less often than k replies do.
func bestAtK(scores []float64, k int) float64 {
	s := slices.Sorted(slices.Values(scores))
	n := len(s)
	sum, weight := 0.0, float64(k)/float64(n)
	for i := n; i >= k; i-- {
		sum += weight * s[i-1]
		if i > 1 {
			weight *= float64(i-k) / float64(i-1)
		}
	}
	return sum
}
