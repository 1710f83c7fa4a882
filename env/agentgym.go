package env

import (
	"github.com/openmanus/openmanus/env/action"
)

// An environment of a user's own. Its servers have the endpoints of AgentGym's
// textcraft server (protocol 5.1): /create, /reset with the key "data_idx", /step and
// /close take and return JSON objects with the keys "id", "observation", "reward" and
// "done". docs/own-environment.md describes them.
//
// Differs from the registered environments in: the configuration holds the
// instruction and the meaning of the reward, every index of 0 or greater is a task,
// and every parser sends the text after "Action:", or the whole reply without it.

// KindAgentGym is the kind of environments whose servers AgentGym(…) describes.
const KindAgentGym = "agentgym"

// Own holds the properties of a user's own environment.
type Own struct {
	SuccessReward float64 // see Spec.SuccessReward
	Deterministic bool    // see Spec.Deterministic
	Cumulative    bool    // see Spec.Cumulative
}

// AgentGym returns the Spec of a user's own environment. Its instruction describes
// only the shape of a reply.
func AgentGym(name string, o Own) Spec {
	return server{
		create: `{}`,
		reset:  `{"data_idx":%d,"id":%s}`,
		parse: func(g action.Grammar, reply string) (string, bool) {
			if g.Parser == action.ParserWhole {
				return reply, true
			}
			return action.ParseSplit(reply), true
		},
		closes: true,
	}.over(Spec{
		Name:          name,
		Doc:           "an environment of your own, with AgentGym's protocol",
		Own:           true,
		Instruction:   ownShape,
		ToolCall:      action.NamedCall,
		ToolAnswer:    action.NamedAnswer,
		SuccessReward: o.SuccessReward,
		Deterministic: o.Deterministic,
		Cumulative:    o.Cumulative,
		MaxTurns:      ownTurns,
	})
}

// ownTurns is the turn limit of a user's own environment outside of a configuration.
const ownTurns = 20

// ownShape describes the shape of a reply, without an example of an action.
func ownShape(format string) string {
	if format == FormatToolCall {
		return action.ToolShape("TOOL", `{"PARAMETER": "VALUE"}`)
	}
	return replyShape(format, "your action")
}
