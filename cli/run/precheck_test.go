package run

import (
	"strings"
	"testing"

	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
)

// TestCheckModels checks that checkModels reports missing and unsuitable models.
func TestCheckModels(t *testing.T) {
	tiny := copyTinyModel(t)
	for _, c := range []struct {
		name   string
		change func(*configs.Config)
		words  string // part of the error; "": no error
	}{
		{"valid", func(*configs.Config) {}, ""},
		{"no model", func(c *configs.Config) { c.Model.Path = "nowhere" }, "model.path: "},
		{"no tokenizer", func(c *configs.Config) { c.Model.TokenizerPath = "nowhere" }, "model.tokenizer_path: "},
		{"no reference", func(c *configs.Config) { c.Ref.Path = "nowhere" }, "ref.path: "},
		{"no critic", func(c *configs.Config) { c.Critic.Path = "nowhere" }, "critic.path: "},
		{"no reward model", func(c *configs.Config) { c.Reward.ModelPath = "nowhere" }, "reward.model_path: "},
		{"a language model for a reward model", func(c *configs.Config) { c.Reward.ModelPath = tiny }, "without a score head"},
		{"a reward model", func(c *configs.Config) { c.Reward.ModelPath = tinyModel(t, 1) }, ""},
		{"a reward model with two labels", func(c *configs.Config) { c.Reward.ModelPath = tinyModel(t, 2) }, "2 labels"},
		{"the same model as reference", func(c *configs.Config) { c.Ref.Path = tiny }, ""},
		{"a reference with another vocabulary", func(c *configs.Config) { c.Ref.Path = tinyModel(t, 0) }, "in its vocabulary"},
		{"a reference that is too short", func(c *configs.Config) {
			c.Ref.Path = tiny
			c.Rollout.MaxContextTokens = 1 << 20
		}, "rollout.max_context_tokens is 1048576"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := Schema.Defaults()
			cfg.Model.Path, cfg.Rollout.MaxContextTokens = tiny, 64
			c.change(&cfg)
			err := (&training{host: &newTestHost(t).Host, cfg: cfg, run: &runFolder{}}).checkModels(t.Context())
			if c.words == "" && err != nil || c.words != "" && (err == nil || !strings.Contains(err.Error(), c.words) || CodeOf(t.Context(), err) != errext.Model) {
				t.Errorf("got %v, want %q", err, c.words)
			}
		})
	}
}

// TestCheckPrograms checks that checkModels reports a score function whose program is
// missing.
func TestCheckPrograms(t *testing.T) {
	tiny := copyTinyModel(t)
	for _, c := range []struct {
		name   string
		change func(*configs.Reward)
		code   errext.ExitCode
		words  string
	}{
		{"valid", func(r *configs.Reward) { r.ScoreFn = "exec:sh my.sh" }, errext.OK, ""},
		{"a server", func(r *configs.Reward) { r.ScoreFn = "http://127.0.0.1:1/score" }, errext.OK, ""},
		{"a misspelt program", func(r *configs.Reward) { r.ScoreFn = "exec:pyhton3 my.py" }, errext.Env, "score function exec:pyhton3 my.py: unreachable"},
		{"of a component", func(r *configs.Reward) {
			r.Components = []configs.Component{Schema.DefaultComponent("goal"), {Name: "mine", Fn: "exec:./no-such-program"}}
		}, errext.Env, "./no-such-program: unreachable"},
		{"an open quote", func(r *configs.Reward) { r.ScoreFn = "exec:sh 'my.sh" }, errext.Input, "quote"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := Schema.Defaults()
			cfg.Model.Path = tiny
			c.change(&cfg.Reward)
			for m, want := range map[mode]errext.ExitCode{reinforced: c.code, supervised: errext.OK} {
				err := (&training{host: &newTestHost(t).Host, cfg: cfg, run: &runFolder{}, mode: m}).checkModels(t.Context())
				if CodeOf(t.Context(), err) != want || want != errext.OK && !strings.Contains(err.Error(), c.words) {
					t.Errorf("mode %v: got %v, want %q", m, err, c.words)
				}
			}
		})
	}
}
