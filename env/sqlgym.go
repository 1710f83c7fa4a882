package env

import (
	"context"
	"encoding/json"

	"github.com/openmanus/openmanus/env/action"
)

// SQLGym over the BIRD questions (protocol 5.9). As with webshop, /create returns
// a bare random number, /reset an array, and status 503 means that nothing was
// done. A process holds 8 instances and returns the first again for the ninth
// /create; it handles one request at a time and has no /close. Every episode has
// one step.

var sqlgymServer = server{stepRetry503: true, keys: stepKeys{observation: "state", reward: "reward", done: "done"}}

// The questions of BIRD's training set come first, then those of its dev set.
const (
	sqlgymTrain = 9428
	sqlgymAll   = 10962
)

func init() {
	Register("sqlgym", Spec{
		Doc:           "answer a question about a database with one SQL statement (AgentGym sqlgym server, BIRD)",
		New:           newSQLGym,
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

type sqlgym struct{ indexed }

type sqlgymReset struct {
	ItemID int             `json:"item_id"`
	EnvIdx json.RawMessage `json:"env_idx"`
}

func newSQLGym(ctx context.Context, o Options) (Client, error) {
	in, err := newIndexed(ctx, "sqlgym", o, sqlgymServer, nil, (*indexed).bareID)
	if err != nil {
		return nil, err
	}
	return &sqlgym{in}, nil
}

func (s *sqlgym) Reset(ctx context.Context, index int) (Obs, error) {
	return s.restart(ctx, index, sqlgymReset{ItemID: index, EnvIdx: s.idx}, s.isPair)
}

func (s *sqlgym) Step(ctx context.Context, text string) (StepResult, error) {
	return s.actIndexed(ctx, action.ParseSQL(text))
}
