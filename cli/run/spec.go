package run

import (
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/internal/errext"
)

// SpecOf returns the environment of an [[env]] table. Prompt tasks need a judge to be
// played: see openJudge.
func SpecOf(e configs.Env) (env.Spec, error) { return specOf(e, nil) }

func specOf(e configs.Env, judge env.Judge) (env.Spec, error) {
	switch e.Kind {
	case configs.KindAgentGym:
		return env.AgentGym(e.Name, env.Own{SuccessReward: e.SuccessReward, Deterministic: e.Deterministic, Cumulative: e.Cumulative}), nil
	case configs.KindPrompt:
		return env.Prompts(e.Name, e.SuccessReward, judge), nil
	}
	spec, err := env.Lookup(e.Name)
	return spec, errext.With(errext.Input, "", err)
}
