package env

import "github.com/openmanus/openmanus/env/action"

// SQLGym over the BIRD questions (protocol 5.9). As with webshop, /create returns a
// random number, /reset an array, and status 503 means that the step was not executed. A
// process keeps 8 instances and returns the first again for the ninth /create. It
// handles one request at a time and has no /close. Every episode has one step.

// The questions of BIRD's training set come first, then those of its dev set.
const (
	sqlgymTrain = 9428
	sqlgymAll   = 10962
)

func init() {
	register("sqlgym", server{
		reset:        `{"item_id":%d,"env_idx":%s}`,
		indexed:      true,
		checkReset:   (*instance).isPair,
		parse:        func(_ action.Grammar, reply string) (string, bool) { return action.ParseSQL(reply), true },
		textKey:      "state",
		stepRetry503: true,
	}, Spec{
		Doc:           "answer a question about a database with one SQL statement (AgentGym sqlgym server, BIRD)",
		Instruction:   sqlgymInstruction,
		SuccessReward: 0.99,
		MaxTurns:      1,
		IndexValid:    below(sqlgymAll, "questions"),
		Family:        families{{0, "train"}, {sqlgymTrain, "dev"}}.at,
		MaxInstances:  8,
		OneAtATime:    true,
		Deterministic: true,
		Greeting:      "ok",
	})
}

func sqlgymInstruction(format string) string {
	return "You are given the description of an SQLite database, its tables, columns and keys, and then a question about its data. " +
		"Answer with one SQL statement on one line whose result is the answer. You have one try.\n" +
		replyShape(format, "```sql\nSELECT name FROM city WHERE population > 1000000\n```")
}
