package algo

import (
	"maps"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/algo/learner"
)

// TestPassesAreResumed checks that a run with several shuffled passes of actor and critic gives the
// same results after a kill and a resume.
func TestPassesAreResumed(t *testing.T) {
	run := func(killAfter int) *rig {
		r := quick(t, func(o *Options) {
			o.Estimator, o.Critic = "gae", criticOptions()
			o.Policy.MiniBatch, o.Policy.Passes = 2, learner.Passes{Epochs: 2, Shuffle: true}
			o.Critic.MiniBatch, o.Critic.Passes = 2, learner.Passes{Epochs: 3, Shuffle: true}
			o.SaveEvery = 1
		})
		r.steps = 2
		if killAfter > 0 {
			r.killAfter(t, killAfter)
		}
		must(t, r.fit(t, t.Context(), t.Context()))
		return r
	}
	calm, resumed := run(0).lines(t)[2], run(1).lines(t)[2]
	for _, name := range []string{"actor/pg_loss", "actor/grad_norm", "actor/ppo_kl", "critic/vf_loss", "critic/grad_norm"} {
		if resumed[name] != calm[name] || calm[name] == 0 {
			t.Errorf("%s is %v, undisturbed %v", name, resumed[name], calm[name])
		}
	}
	if _, there := calm["timing_s/old_log_prob"]; !there {
		t.Errorf("no log-probs from before the update: %v", slices.Sorted(maps.Keys(calm)))
	}
}
