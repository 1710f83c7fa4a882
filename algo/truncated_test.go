package algo

import (
	"path/filepath"
	"testing"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/algo/kl"
)

// TestTruncatedSampling trains on episodes sampled with top-p and top-k: every training pass computes log-probs over
// the kept tokens and reproduces the log-probs of sampling.
func TestTruncatedSampling(t *testing.T) {
	for _, c := range []struct {
		name, format string
		topP         float32
		topK         int
		change       func(o *Options)
	}{
		{"top-p", "", 0.6, 0, nil},
		{"top-k", "", 0, 5, nil},
		{"both, several contexts", "history", 0.8, 9, nil},
		{"several passes", "", 0.6, 0, func(o *Options) { o.Policy.MiniBatch, o.Policy.Passes.Epochs = 2, 2 }},
		{"a KL loss and an entropy", "", 0.6, 0, func(o *Options) { o.Policy.KLCoef, o.Policy.KLType, o.Policy.Entropy = .1, "k3", true }},
		{"the estimator that needs Σ π²", "", 0.6, 0, func(o *Options) { o.Estimator = "optimal_token_baseline" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := quick(t, c.change)
			r.format = c.format
			r.play = func(o *agent.Options) { o.TopP, o.TopK = c.topP, c.topK }
			r.reference = c.change != nil && c.name == "a KL loss and an entropy"
			must(t, r.fit(t, t.Context(), t.Context()))
			m := r.lines(t)[1]
			if gap := m["rollout/logprob_gap_mean"]; !(gap < 1e-5) {
				t.Errorf("the log-probs of sampling and training differ by %v, want less than 1e-5", gap)
			}
			if !(m["actor/grad_norm"] > 0) {
				t.Errorf("the gradient norm is %v, want a positive number", m["actor/grad_norm"])
			}
			e := dumped(t, filepath.Join(r.dir, "rollouts", "step_1.jsonl"))[0]
			for _, turn := range e.Turns {
				if len(turn.Kept) != turn.End-turn.Start || len(turn.Kept) == 0 {
					t.Fatalf("a turn has %d sets of kept tokens, want %d, one for each token", len(turn.Kept), turn.End-turn.Start)
				}
				for _, set := range turn.Kept {
					ids, err := set.IDs()
					must(t, err)
					if c.topK > 0 && (len(ids) == 0 || len(ids) > c.topK) {
						t.Errorf("%d tokens were kept, want 1 to top_k = %d", len(ids), c.topK)
					}
				}
			}
		})
	}
}

// TestFullKLOfTruncatedSampling checks that the KL over the whole vocabulary is rejected if tokens were sampled from
// a subset of it.
func TestFullKLOfTruncatedSampling(t *testing.T) {
	r := quick(t, func(o *Options) { o.Policy.KLCoef, o.Policy.KLType = .1, kl.Full })
	r.reference = true
	r.play = func(o *agent.Options) { o.TopP = 0.6 }
	if err := r.fit(t, t.Context(), t.Context()); err == nil {
		t.Error("a KL over the whole vocabulary was accepted")
	}
}
