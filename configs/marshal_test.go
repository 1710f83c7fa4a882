package configs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMarshalLoadsBack(t *testing.T) {
	configs := map[string]Config{"minimal": load(t, minimal)}
	for _, name := range PresetNames() {
		configs[name] = preset(t, name)
	}
	odd := load(t, minimal)
	odd.Trainer.Project = "a \"quoted\" \\ name\n\twith\x01 control, ünïcode and \x7f"
	odd.Actor.Optim.LR = 1
	odd.Actor.Optim.Eps = 1e-300
	odd.Trainer.Seed = 1<<62 + 1
	configs["odd"] = odd
	configs["components"] = load(t, minimal, "reward.components.goal.weight=0.5", "reward.components.b.fn=exec:python3 x.py", "reward.components.length.weight=-0.01",
		"reward.components.length.max_length=100", "reward.components.format.patterns=['a', 'b']", "reward.components.agentgym.gt_sim_max_r=2")
	for name, c := range configs {
		t.Run(name, func(t *testing.T) {
			again, err := schema.Load("again.toml", c.Marshal(), nil)
			if err != nil {
				t.Fatalf("%v\n%s", err, c.Marshal())
			}
			if diff := cmp.Diff(c, again); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if d := Diff(c, again); len(d) > 0 {
				t.Errorf("Diff lists %v for equal configurations", d)
			}
		})
	}
}

func TestMarshalCommentsEveryKey(t *testing.T) {
	prev := ""
	for line := range strings.SplitSeq(string(load(t, minimal).Marshal()), "\n") {
		if strings.Contains(line, " = ") && !strings.HasPrefix(line, "#") && !strings.HasPrefix(prev, "# ") {
			t.Errorf("no comment on %s", line)
		}
		prev = line
	}
}

func TestDiff(t *testing.T) {
	a := load(t, minimal)
	b := a.Clone()
	b.Actor.Optim.LR = 1e-4
	b.Env[0].MaxTurns = 3
	b.Env = b.Env[:1]
	var got []string
	for _, c := range Diff(a, b) {
		got = append(got, c.String())
	}
	want := []string{"env.1.name: \"textcraft\" -> (absent)", "env.0.max_turns: 10 -> 3", "actor.optim.lr: 1e-06 -> 0.0001"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if a.Env[0].MaxTurns != 10 {
		t.Error("a change of a clone changes the original")
	}
	if d := Diff(a, a.Clone()); len(d) != 0 {
		t.Errorf("a configuration and its clone differ in %v", d)
	}
}

func TestValidateJoinsFaults(t *testing.T) {
	c := load(t, minimal)
	if fs := c.faults(); len(fs) > 0 {
		t.Fatal(fs)
	}
	c.Rollout.TopP, c.Log.Level, c.Env[1].Weight = 1.5, "loud", -1
	if fs := c.faults(); len(fs) != 3 {
		t.Errorf("want three faults, got %v", fs)
	}
}
