package configs

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/data/registry"
)

// Config is the configuration of a run. The tags are the keys of the TOML file;
// docs/configuration.md describes them.
type Config struct {
	Model      Model      `toml:"model"`
	Env        []Env      `toml:"env"`
	Data       Data       `toml:"data"`
	Agent      Agent      `toml:"agent"`
	Rollout    Rollout    `toml:"rollout"`
	Serve      Serve      `toml:"serve"`
	Reward     Reward     `toml:"reward"`
	Algo       Algo       `toml:"algo"`
	Curriculum Curriculum `toml:"curriculum"`
	Actor      Actor      `toml:"actor"`
	Critic     Critic     `toml:"critic"`
	Ref        Ref        `toml:"ref"`
	SFT        SFT        `toml:"sft"`
	Trainer    Trainer    `toml:"trainer"`
	Dist       Dist       `toml:"dist"`
	Perf       Perf       `toml:"perf"`
	Log        Log        `toml:"log"`

	// Derived lists the defaults that Load replaced.
	Derived []Derived `toml:"-"`

	// Schema is the schema that loaded the configuration.
	Schema *Schema `toml:"-" json:"-"`
}

// Clone returns a deep copy of c.
func (c Config) Clone() Config {
	c.Env, c.Derived = slices.Clone(c.Env), slices.Clone(c.Derived)
	c.Reward.Components = slices.Clone(c.Reward.Components)
	for i, p := range c.Reward.Components {
		c.Reward.Components[i].Params = maps.Clone(p.Params)
	}
	c.Algo.Params, c.Actor.Params = maps.Clone(c.Algo.Params), maps.Clone(c.Actor.Params)
	for _, e := range c.Schema.table {
		_, list := e.def.([]string)
		_, table := e.def.(map[string]string)
		if e.param || !list && !table {
			continue
		}
		for _, path := range c.paths(e.name) {
			f := c.field(path)
			if list {
				f.Set(reflect.ValueOf(slices.Clone(f.Interface().([]string))))
			} else {
				f.Set(reflect.ValueOf(maps.Clone(f.Interface().(map[string]string))))
			}
		}
	}
	return c
}

// UsesReference reports whether a step measures the KL to a frozen policy.
func (c *Config) UsesReference() bool { return c.Actor.UseKLLoss || c.Algo.UseKLInReward }

// Evolves reports whether the run uses AgentEvol.
func (c *Config) Evolves() bool { return c.Algo.Name == "agentevol" }

// UsesCritic reports whether advantages are estimated with a critic's values.
func (c *Config) UsesCritic() bool { return c.estimator().Critic }

// updatesCritic reports whether the critic is updated separately from the policy.
func (c *Config) updatesCritic() bool {
	return c.UsesCritic() && !c.Evolves() && (!c.Critic.Shared || c.Trainer.CriticWarmup > 0)
}

// estimator returns the properties of the configured advantage estimator.
func (c *Config) estimator() registry.Estimator {
	e, _ := registry.Find(c.Schema.words.Estimators, c.Algo.AdvEstimator)
	return e
}

// environmentsThat lists the environments with a property.
func (c *Config) environmentsThat(have func(registry.Environment) bool) string {
	return strings.Join(registry.NamesOf(c.Schema.words.Environments, have), ", ")
}

// environment returns the properties of an environment by its name.
func (c *Config) environment(name string) registry.Environment {
	e, _ := registry.Find(c.Schema.words.Environments, name)
	return e
}

// environmentOf returns the properties of the environment of an [[env]] table. The
// result has no name if the environment is not known.
func (c *Config) environmentOf(e Env) registry.Environment {
	own := registry.Environment{Entry: registry.Entry{Name: e.Name}, Cumulative: e.Cumulative}
	switch e.Kind {
	case KindAgentGym:
		own.Tools = true
		return own
	case KindPrompt:
		return own
	}
	return c.environment(e.Name)
}
