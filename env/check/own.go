package check

import (
	"math"
	"regexp"

	"github.com/openmanus/openmanus/env"
)

// This file describes the servers of a user's own environment (env.AgentGym). Their
// texts, actions and rewards are unknown, so their solutions cannot be checked.

// ownActions are the actions for a server if Options.Actions is empty. A server answers an
// unknown action with an observation, too.
var ownActions = []string{"look", "help", "1"}

var own = environment{
	name: env.KindAgentGym, section: "5.1",
	createBody: `{}`,
	created:    keys{{"id", natural}}, idFrom: "id", idKey: "id",
	taskKey: "data_idx", tasks: []int{0, 1},
	reset:   keys{{"observation", text}},
	opening: observationOf, opens: regexp.MustCompile(`(?s)\S`),
	step: textReply, textKey: "observation", doneKey: "done", rewards: [2]float64{math.Inf(-1), math.Inf(1)},
	actions:    always(ownActions...),
	noSolution: "the solutions of an environment of your own are not known",
	unknown:    errorObject, closing: closeAny,
	noDialect: true,
}
