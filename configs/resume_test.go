package configs

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMayChangeNamesKeys(t *testing.T) {
	var seen []string
	for _, group := range mayChange {
		for _, name := range group.keys {
			if e, ok := schema.known(name); !ok || e.status != Ready {
				t.Errorf("%s is not a Ready key", name)
			}
			if slices.Contains(seen, name) {
				t.Errorf("%s is listed twice", name)
			}
			seen = append(seen, name)
		}
	}
	for _, name := range []string{
		"model.path", "model.fresh.layers", "model.compute_dtype", "env.name", "env.tasks", "env.val_tasks", "env.max_turns", "data.seed",
		"trainer.seed", "algo.adv_estimator", "actor.optim.lr", "actor.clip_ratio_low", "rollout.temperature", "rollout.group_size",
		"sft.epochs", "sft.optim.lr", "reward.signal",
	} {
		if free(name) {
			t.Errorf("free(%s) is true, but the key defines the experiment", name)
		}
	}
}

func TestDiffTellsWhatMayChange(t *testing.T) {
	a := schema.Defaults()
	a.Env = []Env{schema.DefaultEnv("maze"), schema.DefaultEnv("textcraft")}
	b := a.Clone()
	b.Actor.Optim.LR = 0.5
	b.Trainer.TotalSteps = 77
	b.Env[0].Servers = []string{"http://127.0.0.1:1"}
	b.Env[0].MaxTurns = 3
	b.Env = b.Env[:1]
	got := map[string]bool{}
	for _, c := range Diff(a, b) {
		got[c.Key] = c.Free
	}
	want := map[string]bool{
		"env.0.servers": true, "env.0.max_turns": false, "env.1.name": false, "actor.optim.lr": false, "trainer.total_steps": true,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("keys by Free (-want +got):\n%s", d)
	}
	if d := Diff(a, a.Clone()); len(d) > 0 {
		t.Errorf("equal configurations differ in %v", d)
	}
}
