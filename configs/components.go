package configs

import (
	"math"
	"regexp"
	"slices"
	"strings"
)

// components is where the keys of [reward.components.NAME] begin. In the table
// of keys they have no NAME, in paths they have it.
const components = "reward.components."

// ModelScoreFn is the score function that is a reward model's output.
const ModelScoreFn = "model"

// scoreFns are the score functions of this program and the parameters that
// each reads.
var scoreFns = map[string][]string{
	"goal": nil, "math": nil, ModelScoreFn: nil,
	"data_source": {"format_score", "min_answer_tags", "gsm8k_method"},
	"qa_em":       {"format_score", "min_answer_tags"}, "subem": {"format_score", "min_answer_tags"},
	"f1": {"min_answer_tags"}, "bleu": {"min_answer_tags"}, "bleu_addone": {"min_answer_tags"},
	"gsm8k": {"format_score", "gsm8k_method"}, "countdown": {"format_score"}, "multiply": {"format_score"},
	"format": {"patterns"}, "length": {"max_length", "min_length", "penalty_type", "unit"},
	"overlong": {"max_length", "overlong_buffer", "overlong_factor"},
	"agentgym": {
		"env_reward_weight", "env_reward_scale", "env_reward_clip",
		"format_reward_weight", "format_max_r", "format_min_r", "format_check_all_tags",
		"length_reward_weight", "length_max_r", "length_min_r", "length_target_words", "length_tolerance", "length_too_short_factor",
		"length_too_long_factor", "length_penalty_if_missing",
		"gt_sim_reward_weight", "gt_sim_max_r", "gt_sim_min_r",
	},
}

// ScoreFns returns the names of the score functions that are part of this
// program and the parameters that each reads.
func ScoreFns() map[string][]string { return scoreFns }

// ExternalScoreFn reports whether a score function is the user's own, behind
// an address or a command.
func ExternalScoreFn(fn string) bool {
	return strings.HasPrefix(fn, "http://") || strings.HasPrefix(fn, "https://") || strings.HasPrefix(fn, "exec:")
}

// ScoreFn says what is wrong with the name of a score function, or "".
func ScoreFn(fn string) string { return scoreFn.check(fn) }

var scoreFn = func() rule {
	var names []string
	for name := range scoreFns {
		names = append(names, name)
	}
	slices.Sort(names)
	one := oneOf(append([]string{""}, names...))
	allowed := strings.Join(names, " | ") + " | http://… | https://… | exec:COMMAND"
	return rule{allowed, func(v any) string {
		switch fn := v.(string); {
		case strings.HasPrefix(fn, "exec:"):
			if strings.TrimSpace(strings.TrimPrefix(fn, "exec:")) == "" {
				return "\"exec:\" names no command; write exec:python3 my_reward.py"
			}
			return ""
		case ExternalScoreFn(fn):
			return ServerURL(fn)
		}
		if msg := one.check(v); msg != "" {
			return strings.Replace(msg, one.allowed, allowed, 1)
		}
		return ""
	}}
}()

var anyNumber = numeric("a finite number", func(float64) bool { return true })

// component returns the component of a name, which is made if there is none.
func (c *Config) component(name string) *Component {
	i := slices.IndexFunc(c.Reward.Components, func(p Component) bool { return p.Name >= name })
	if i < 0 {
		i = len(c.Reward.Components)
	}
	if i == len(c.Reward.Components) || c.Reward.Components[i].Name != name {
		c.Reward.Components = slices.Insert(c.Reward.Components, i, DefaultComponent(name))
	}
	return &c.Reward.Components[i]
}

// componentName says what is wrong with the NAME of [reward.components.NAME].
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
		fs.add("reward.score_fn", "there are reward.components too: make it one of them, with a weight, and take it out here")
	}
	if r.Allocation == "per_turn" && (r.ScoreFn != "" || len(r.Components) > 0) {
		fs.add("reward.allocation", "per_turn pays each turn what the environment gave for it, which a score function does not say: choose another allocation")
	}
	if r.ScoreFn != "" && !ExternalScoreFn(r.ScoreFn) {
		if slices.Contains([]string{"format", "length", "overlong"}, r.ScoreFn) {
			fs.add("reward.score_fn", "%s needs parameters: write it as a table [reward.components.%s]", r.ScoreFn, r.ScoreFn)
		}
	}
	if r.Signal == "sum" {
		for _, e := range c.Env {
			if slices.Contains(cumulative, e.Name) {
				fs.add("reward.signal", "the rewards of %s are a running score, of which a sum counts the same points again with every turn: write last", e.Name)
				break
			}
		}
	}
	if r.Signal == "env_score" {
		for _, e := range c.Env {
			if !slices.Contains([]string{"babyai", "sciworld"}, e.Name) {
				fs.add("reward.signal", "%s keeps no score beside its reward, only babyai and sciworld do: write last", e.Name)
				break
			}
		}
	}
	for i := range r.Components {
		c.checkComponent(fs, &r.Components[i])
	}
	c.checkRewardModel(fs)
}

// checkRewardModel pairs the reward model with the one score function that asks
// for it.
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
		fs.add("reward.model_path", "the score function model is a reward model: give the folder it is in")
	case uses > 1:
		fs.add("reward.components", "there is one reward model: name it in one component")
	}
}

func (c *Config) checkComponent(fs *Faults, p *Component) {
	at := components + p.Name + "."
	fn := p.Fn
	if fn == "" {
		fn = p.Name
	}
	if msg := ScoreFn(fn); msg != "" {
		fs.add(at+"fn", "%s", msg)
		return
	}
	switch {
	case p.Weight == 0 || math.IsNaN(p.Weight):
		fs.add(at+"weight", "0 would only cost time: take the component out")
	case fn == "length" && p.Weight > 0:
		fs.add(at+"weight", "length grows with the excess: a positive weight would reward it; write -0.01, for one")
	case fn == "length" && p.MaxLength == 0 && p.MinLength == 0:
		fs.add(at+"max_length", "set max_length or min_length")
	case fn == "length" && p.MaxLength > 0 && p.MinLength > p.MaxLength:
		fs.add(at+"min_length", "%d is more than max_length %d", p.MinLength, p.MaxLength)
	case fn == "overlong" && p.MaxLength == 0:
		fs.add(at+"max_length", "set it, to rollout.max_new_tokens for one")
	case fn == "overlong" && (p.OverlongBuffer == 0 || p.OverlongBuffer > p.MaxLength):
		fs.add(at+"overlong_buffer", "%d is not allowed; allowed: from 1 to max_length %d", p.OverlongBuffer, p.MaxLength)
	case fn == "format" && len(p.Patterns) == 0:
		fs.add(at+"patterns", "set it, for one to [\"(?s)<think>.*</think>\"]")
	}
	for _, text := range p.Patterns {
		if _, err := regexp.Compile(text); err != nil {
			fs.add(at+"patterns", "%q is not a regular expression: %v", text, err)
			return
		}
	}
}
