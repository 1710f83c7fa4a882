package configs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const small = `
[model]
path = "m"
[[env]]
name = "maze"
tasks = "0-15"
val_tasks = "16"
`

// TestDerive checks that loading replaces defaults that are inconsistent with the
// user's settings.
func TestDerive(t *testing.T) {
	for name, c := range map[string]struct {
		sets []string
		want string // "key=value ..." of the derived keys
	}{
		"all fits":               {nil, ""},
		"few episodes":           {[]string{"data.train_batch_size=4", "rollout.group_size=4"}, "actor.mini_batch_size=0"},
		"few episodes, critic":   {[]string{"data.train_batch_size=4", "rollout.group_size=1", "algo.adv_estimator=gae"}, "actor.mini_batch_size=0 critic.mini_batch_size=0"},
		"few episodes, shared":   {[]string{"data.train_batch_size=2", "algo.adv_estimator=gae", "critic.shared=true", "critic.micro_batch_size=5"}, "actor.mini_batch_size=0"},
		"shared, with warm-up":   {[]string{"data.train_batch_size=2", "algo.adv_estimator=gae", "critic.shared=true", "trainer.critic_warmup=1"}, "actor.mini_batch_size=0 critic.mini_batch_size=0"},
		"small context":          {[]string{"rollout.max_context_tokens=2048"}, "data.max_prompt_tokens=1536"},
		"tiny context":           {[]string{"rollout.max_context_tokens=400"}, "rollout.max_new_tokens=100 data.max_prompt_tokens=300"},
		"replies of half":        {[]string{"rollout.max_context_tokens=600"}, "data.max_prompt_tokens=300"},
		"short replies":          {[]string{"rollout.max_context_tokens=2048", "rollout.max_new_tokens=48"}, "data.max_prompt_tokens=2000"},
		"mini-batch of six":      {[]string{"actor.mini_batch_size=6"}, "actor.micro_batch_size=3"},
		"micro-batch of six":     {[]string{"actor.micro_batch_size=6"}, "actor.mini_batch_size=30"},
		"micro-batch of forty":   {[]string{"actor.micro_batch_size=40"}, "actor.mini_batch_size=40"},
		"dynamic, large context": {[]string{"actor.dynamic_batch=true", "rollout.max_context_tokens=32768"}, "actor.max_tokens_per_micro_batch=32768"},
		"imitation in twos":      {[]string{"sft.epochs=1", "sft.files=x.jsonl", "sft.train_batch_size=2"}, "sft.micro_batch_size=2"},
		"imitation, long rows":   {[]string{"sft.epochs=1", "sft.files=x.jsonl", "sft.dynamic_batch=true", "sft.max_length=20000"}, "sft.max_tokens_per_micro_batch=20000"},
	} {
		cfg, err := schema.Load("x.toml", []byte(small), c.sets)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, d := range cfg.Derived {
			got = append(got, d.Key+"="+d.Value)
			if now := literal(cfg.field(d.Key)); now != d.Value || d.Default == d.Value || d.Reason == "" {
				t.Errorf("%s: derived %+v, but the configuration has the value %s", name, d, now)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: derived %q, want %q", name, strings.Join(got, " "), c.want)
		}

		// The written configuration marks derived values, and loading it gives an equal configuration.
		text := cfg.Marshal()
		for _, d := range cfg.Derived {
			if !strings.Contains(string(text), "# derived: "+d.Default+" does not fit "+d.Reason+"\n") {
				t.Errorf("%s: the written configuration does not mark %s as derived", name, d.Key)
			}
		}
		again, err := schema.LoadSaved("config.toml", text)
		if err != nil {
			t.Errorf("%s: the written configuration does not load: %v", name, err)
		} else if diff := Diff(cfg, again); len(diff) > 0 || len(again.Derived) > 0 {
			t.Errorf("%s: the loaded copy differs in %v and derives %v", name, diff, again.Derived)
		}
	}
}

func TestSetValuesAreNotDerived(t *testing.T) {
	for sets, want := range map[string]string{
		"data.train_batch_size=4 rollout.group_size=4 actor.mini_batch_size=32":        "actor.mini_batch_size",
		"rollout.max_context_tokens=2048 data.max_prompt_tokens=4096":                  "data.max_prompt_tokens",
		"rollout.max_context_tokens=512 rollout.max_new_tokens=512":                    "rollout.max_new_tokens",
		"actor.mini_batch_size=6 actor.micro_batch_size=4":                             "actor.micro_batch_size",
		"actor.dynamic_batch=true actor.max_tokens_per_micro_batch=100":                "actor.max_tokens_per_micro_batch",
		"sft.epochs=1 sft.files=x.jsonl sft.train_batch_size=4 sft.micro_batch_size=3": "sft.micro_batch_size",
	} {
		_, err := schema.Load("x.toml", []byte(small), strings.Fields(sets))
		faults, ok := err.(Faults)
		if !ok || !faults.about(want) {
			t.Errorf("%s: error %v, want one about %s", sets, err, want)
		}
	}
	text := small + "[data]\ntrain_batch_size = 2\n[actor]\nmini_batch_size = 32\n"
	if _, err := schema.Load("x.toml", []byte(text), nil); err == nil || !strings.Contains(err.Error(), "x.toml:11: actor.mini_batch_size") {
		t.Errorf("error %v, want one about actor.mini_batch_size in line 11", err)
	}
}

// TestDeriveFromAPreset checks that values of a preset are replaced like defaults.
func TestDeriveFromAPreset(t *testing.T) {
	cfg, err := schema.LoadPreset("grpo", []string{"maze"}, []string{"model.path=m", "data.train_batch_size=2", "rollout.group_size=4"})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"actor.mini_batch_size"}, keysOf(cfg.Derived)); d != "" {
		t.Errorf("derived keys (-want +got):\n%s", d)
	}
}

func keysOf(derived []Derived) (keys []string) {
	for _, d := range derived {
		keys = append(keys, d.Key)
	}
	return keys
}
