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
	undisturbed, resumed := run(0).lines(t)[2], run(1).lines(t)[2]
	for _, name := range []string{"actor/pg_loss", "actor/grad_norm", "actor/ppo_kl", "critic/vf_loss", "critic/grad_norm"} {
		if resumed[name] != undisturbed[name] || undisturbed[name] == 0 {
			t.Errorf("%s is %v, want %v as in an undisturbed run, and not 0", name, resumed[name], undisturbed[name])
		}
	}
	if _, there := undisturbed["timing_s/old_log_prob"]; !there {
		t.Errorf("the old log-probs had no pass before the update; metrics %v", slices.Sorted(maps.Keys(undisturbed)))
	}
}
