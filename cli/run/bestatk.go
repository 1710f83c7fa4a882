package run

import "slices"

// bestAtK returns best@k, the expected largest score of k replies, estimated
// from n scored replies to a row. The unbiased estimator is the mean of the
// largest score over all choices of k of the n replies,
//
//	best@k = Σ_{i=k..n} C(i-1, k-1) / C(n, k) · s_i,    s_1 ≤ … ≤ s_n
//
// since s_i is the largest score in C(i-1, k-1) of the choices. For scores 0 and
// 1 best@k equals the pass@k of Chen et al. (eval.PassAtK). The weights are computed
// by a recurrence from k/n for the largest score down, so that no binomial
// overflows. k must be at most n.
//
// verl draws 1000 times with replacement instead, which underestimates best@k.
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
