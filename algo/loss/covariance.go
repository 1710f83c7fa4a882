package loss

// The covariance of log-prob and advantage, for clip_cov and kl_cov. Updates of
// tokens with a high covariance reduce the entropy most.
//
//	cov_t = (A_t - mean A) (log π_t - mean log π)
//
// over the tokens of the mini-batch. Source: Cui et al., "The Entropy Mechanism
// of Reinforcement Learning", arXiv:2505.22617.
//
// Differs from verl in: means and choices are over the whole mini-batch, which
// costs an additional pass that computes the log-probs.

func covariances(tokens []Token) []float64 {
	meanA, meanP := 0.0, 0.0
	for _, t := range tokens {
		meanA += t.Adv
		meanP += t.LogP
	}
	n := float64(len(tokens))
	meanA, meanP = meanA/n, meanP/n
	cov := make([]float64, len(tokens))
	for i, t := range tokens {
		cov[i] = (t.Adv - meanA) * (t.LogP - meanP)
	}
	return cov
}

// share returns the number of tokens to choose from n tokens at the given ratio, at least 1.
func share(ratio float64, n int) int { return max(1, int(ratio*float64(n))) }
