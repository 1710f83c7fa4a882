package configs

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/data/registry"
)

// components is the prefix of the keys of [reward.components.NAME]. Names in the
// table of keys omit NAME; paths contain it.
const components = "reward.components."

// ModelScoreFn is the name of the score function that runs the reward model.
const ModelScoreFn = "model"

// ExternalScoreFn reports whether a score function is a user's HTTP server or
// command.
func ExternalScoreFn(fn string) bool {
	return strings.HasPrefix(fn, "http://") || strings.HasPrefix(fn, "https://") || strings.HasPrefix(fn, "exec:")
}

// external lists the forms of external score functions, after the names of others.
const external = " | http://… | https://… | exec:COMMAND"

// ScoreFn returns the error text for an invalid score function name, or "".
func (s *Schema) ScoreFn(fn string) string { return s.scoreFn().Problem(fn) }

// scoreFn allows the registered score functions and external ones.
func (s *Schema) scoreFn() registry.Range {
	names := s.ScoreFns()
	allowed := strings.Join(names, " | ") + external
	return registry.Range{Allowed: allowed, Check: func(v any) string {
		switch fn := v.(string); {
		case strings.HasPrefix(fn, "exec:"):
			if strings.TrimSpace(strings.TrimPrefix(fn, "exec:")) == "" {
				return "\"exec:\" has no command; write for example exec:python3 my_reward.py"
			}
			return ""
		case ExternalScoreFn(fn):
			return ServerURL(fn)
		}
		words := oneOf(append([]string{""}, names...))
		return strings.Replace(words.Problem(v), words.Allowed, allowed, 1)
	}}
}

// component returns the named component and adds it if it does not exist.
func (c *Config) component(name string) *Component {
	i := slices.IndexFunc(c.Reward.Components, func(p Component) bool { return p.Name >= name })
	if i < 0 {
		i = len(c.Reward.Components)
	}
	if i == len(c.Reward.Components) || c.Reward.Components[i].Name != name {
		c.Reward.Components = slices.Insert(c.Reward.Components, i, c.Schema.DefaultComponent(name))
	}
	return &c.Reward.Components[i]
}

// componentName returns the error text for an invalid NAME in [reward.components.NAME], or "".
func componentName(name string) string {
	ok := name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
	if !ok {
		return "a component is named by letters, digits, _ and -, for metrics such as reward/goal/mean"
	}
	return ""
}

func (c *Config) checkReward(fs *Faults) {
	r := c.Reward
	if r.ScoreFn != "" && len(r.Components) > 0 {
		fs.add("reward.score_fn", "reward.components are set too: write the function as a component with a weight, and take it out here")
	}
	perTurn := func(fn string) bool { return ExternalScoreFn(fn) || fn == "goal" }
	if r.Allocation == "per_turn" && (r.ScoreFn != "" || len(r.Components) > 0) && !c.scoresWith(perTurn) {
		fs.add("reward.allocation", "per_turn needs numbers per turn, which only the function goal and http://, https:// and exec: functions give; use another allocation")
	}
	if r.ScoreFn != "" && !ExternalScoreFn(r.ScoreFn) {
		if e, _ := registry.Find(c.Schema.words.Scores, r.ScoreFn); e.Check != nil {
			fs.add("reward.score_fn", "%s needs parameters: write it as a table [reward.components.%s]", r.ScoreFn, r.ScoreFn)
		}
	}
	if r.Signal == "sum" {
		for _, e := range c.Env {
			if c.environmentOf(e).Cumulative {
				fs.add("reward.signal", "the rewards of %s are running totals, so a sum counts the same points in every turn: write last", e.Name)
				break
			}
		}
	}
	if r.Signal == "env_score" {
		for _, e := range c.Env {
			if !c.environmentOf(e).KeepsScore {
				fs.add("reward.signal", "%s keeps no score besides its reward; environments with a score: %s; write last", e.Name,
					c.environmentsThat(func(e registry.Environment) bool { return e.KeepsScore }))
				break
			}
		}
	}
	for i := range r.Components {
		c.checkComponent(fs, &r.Components[i])
	}
	c.checkRewardModel(fs)
}

// checkRewardModel checks that the score function named "model" has a reward model
// and is used at most once.
func (c *Config) checkRewardModel(fs *Faults) {
	r := c.Reward
	uses := 0
	if r.ScoreFn == ModelScoreFn {
		uses++
	}
	for _, p := range r.Components {
		if p.Fn == ModelScoreFn || p.Fn == "" && p.Name == ModelScoreFn {
			uses++
		}
	}
	switch {
	case uses > 0 && r.ModelPath == "":
		fs.add("reward.model_path", "the score function model needs a reward model: give its folder")
	case uses > 1:
		fs.add("reward.components", "a run has one reward model: use it in one component only")
	}
}

func (c *Config) checkComponent(fs *Faults, p *Component) {
	at := components + p.Name + "."
	fn := cmp.Or(p.Fn, p.Name)
	if msg := c.Schema.ScoreFn(fn); msg != "" {
		fs.add(at+"fn", "%s", msg)
		return
	}
	switch {
	case p.Weight == 0 || math.IsNaN(p.Weight):
		fs.add(at+"weight", "a component of weight 0 has no effect: take it out")
	case fn == "length" && p.Weight > 0:
		fs.add(at+"weight", "the score of length grows with the excess tokens: use a negative weight, for example -0.01")
	}
	e, _ := registry.Find(c.Schema.words.Scores, fn)
	if e.Check == nil {
		return
	}
	if key, problem := e.Check(p.Params); problem != "" {
		fs.add(at+key, "%s", problem)
	}
}
