package configs

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/data/registry"
)

// A condition is a setting that a key needs to have an effect.
type condition struct {
	with  string                      // the setting, as the user writes it
	holds func(c *Config, i int) bool // i is the index of the key's [[env]] table or component
}

// A use lists the conditions under which a key has an effect. Setting the key
// while a condition is not met is an error. Keys for a GPU have no condition, so
// that one file works on both devices.
type use []condition

// and(others) returns the conditions of u and of the other uses, each once.
func (u use) and(others ...use) use {
	out := slices.Clip(u)
	for _, c := range slices.Concat(others...) {
		if !slices.ContainsFunc(out, func(o condition) bool { return o.with == c.with }) {
			out = append(out, c)
		}
	}
	return out
}

// met reports whether c meets all conditions.
func (u use) met(c *Config, i int) bool { return len(u.unmet(c, i)) == 0 }

// unmet lists the conditions that c does not meet.
func (u use) unmet(c *Config, i int) []string {
	var out []string
	for _, cond := range u {
		if !cond.holds(c, i) {
			out = append(out, cond.with)
		}
	}
	return out
}

// The conditions that several keys share.
var (
	policyGradient = among("algo.name", "policy_gradient")
	agentevol      = among("algo.name", "agentevol")

	lora      = above0("model.lora_rank")
	fresh     = above0("model.fresh.layers")
	walks     = fresh.and(above0("model.fresh.walks"))
	imitation = above0("sft.epochs")

	klInReward = policyGradient.and(on("algo.use_kl_in_reward"))
	klLoss     = policyGradient.and(on("actor.use_kl_loss"))
	reference  = policyGradient.and(either("actor.use_kl_loss = true or algo.use_kl_in_reward = true", (*Config).UsesReference))
	fromDump   = either("a dump in data.from_dump", func(c *Config) bool { return c.Data.FromDump != "" })

	own       = among("env.kind", KindAgentGym, KindPrompt)
	ownServer = among("env.kind", KindAgentGym)
	prompts   = among("env.kind", KindPrompt)
	played    = use{{"an environment with servers", func(c *Config, i int) bool { return c.Env[i].Kind != KindPrompt }}}

	agents = policyGradient.and(either("an address in serve.listen", func(c *Config) bool { return c.Serve.Listen != "" }))

	// With serve.listen the [[env]] tables play the validations only.
	environments = either("an [[env]] table, or an empty serve.listen", func(c *Config) bool { return len(c.Env) > 0 || c.Serve.Listen == "" })
	drawsTasks   = either("an empty serve.listen", func(c *Config) bool { return c.Serve.Listen == "" })

	withTrajectories = either("sft.epochs above 0, model.fresh.layers above 0 or algo.name = \"agentevol\"", func(c *Config) bool {
		return c.SFT.Epochs > 0 || c.Model.Fresh.Layers > 0 || c.Evolves()
	})

	summaries = either("use_summary = true in an [[env]] table", func(c *Config) bool {
		return slices.ContainsFunc(c.Env, func(e Env) bool { return e.UseSummary && e.Format == "history" })
	})

	importanceWeights = policyGradient.and(either("algo.rollout_correction.rollout_is = \"token\" or \"sequence\"", func(c *Config) bool {
		return c.Algo.RolloutCorrection.IS != ""
	}))

	// The loss reinforce of bypass_mode uses no ratio.
	ratioLoss = policyGradient.and(either("algo.rollout_correction.loss_type = \"ppo_clip\"", func(c *Config) bool {
		r := c.Algo.RolloutCorrection
		return !r.BypassMode || r.LossType != "reinforce"
	}))

	grouped = either("trainer.experiment = \"\", or wandb or mlflow in log.backends", func(c *Config) bool {
		return c.Trainer.Experiment == "" || slices.Contains(c.Log.Backends, "wandb") || slices.Contains(c.Log.Backends, "mlflow")
	})

	externalReward = policyGradient.and(either("an http://, https:// or exec: score function", func(c *Config) bool {
		return c.scoresWith(ExternalScoreFn)
	}))
	modelReward = policyGradient.and(either("the score function model, in reward.score_fn or [reward.components.model]", func(c *Config) bool {
		return c.scoresWith(func(fn string) bool { return fn == ModelScoreFn })
	}))
)

// critic returns the condition that the estimator reads a critic's values.
func (s *Schema) critic() use {
	names := registry.NamesOf(s.words.Estimators, func(e registry.Estimator) bool { return e.Critic })
	return policyGradient.and(among("algo.adv_estimator", names...))
}

// among returns the condition that a string key has one of the given values.
func among(key string, values ...string) use {
	return valued(key, "= "+alternatives(values), func(v reflect.Value) bool { return slices.Contains(values, v.String()) })
}

// selectedBy returns a function that maps names of implementations to a use: the
// key must select one of them, and the given conditions must be met in addition.
func selectedBy(key string, also use) func(names ...string) use {
	return func(names ...string) use { return also.and(among(key, names...)) }
}

func on(key string) use { return valued(key, "= true", reflect.Value.Bool) }

func off(key string) use {
	return valued(key, "= false", func(v reflect.Value) bool { return !v.Bool() })
}

func above0(key string) use {
	return valued(key, "above 0", func(v reflect.Value) bool { return v.Int() > 0 })
}

func zero(key string) use {
	return valued(key, "= 0", func(v reflect.Value) bool { return v.Int() == 0 })
}

// valued returns the condition that a function is true for the key's value; the text describes the condition.
func valued(key, is string, holds func(v reflect.Value) bool) use {
	return use{{strings.TrimPrefix(key, "env.") + " " + is, func(c *Config, i int) bool {
		return holds(c.field(instance(key, i)))
	}}}
}

// either(...) returns the condition that a function is true for the configuration; the text describes the condition.
func either(with string, holds func(*Config) bool) use {
	return use{{with, func(c *Config, _ int) bool { return holds(c) }}}
}

// inherited returns the condition that an [[env]] table takes the value of an
// [agent] key. The given text names the key and the tables.
func inherited(which string, takes func(c *Config, e Env) bool) use {
	return either("an [[env]] table that leaves out "+which, func(c *Config) bool {
		return len(c.Env) == 0 && c.Serve.Listen == "" || slices.ContainsFunc(c.Env, func(e Env) bool { return takes(c, e) })
	})
}

// served returns the condition that the environment runs on its built-in server.
func served(name string) use {
	return use{{"the built-in " + name + " server", func(c *Config, i int) bool {
		e := c.Env[i]
		return e.Name == name && len(e.Servers) == 0 && !e.Launch
	}}}
}

// scoreFnReads returns the condition that the function in reward.score_fn has a parameter.
func (s *Schema) scoreFnReads(parameter string) use {
	return policyGradient.and(among("reward.score_fn", s.scores.names(parameter)...))
}

// scoresWith reports whether one of the configured score functions is of a kind.
func (c *Config) scoresWith(kind func(fn string) bool) bool {
	return kind(c.Reward.ScoreFn) || slices.ContainsFunc(c.Reward.Components, func(p Component) bool { return kind(cmp.Or(p.Fn, p.Name)) })
}

// alternatives writes values as `"a", "b" or "c"`.
func alternatives(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = quote(v)
	}
	return orList(quoted)
}

// orList writes words as "a, b or c".
func orList(words []string) string {
	n := len(words) - 1
	if n < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:n], ", ") + " or " + words[n]
}
