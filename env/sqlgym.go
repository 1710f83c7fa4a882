package env

import (
	"context"
	"encoding/json"

	"github.com/openmanus/openmanus/env/action"
)

// SQLGym over the BIRD questions (protocol 5.9). Like webshop's its /create
// answers a bare random number, its /reset an array, and 503 is an answer
// before anything was done. A process holds 8 instances and hands the first
// out again for the ninth, works one request at a time, and takes no instance
// back. Every step is the last.

var sqlgymServer = server{stepRetry503: true, keys: stepKeys{observation: "state", reward: "reward", done: "done"}}

// The questions: those of BIRD's training set, then those of its dev set.
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
	if _, err := o.parser("sqlgym"); err != nil { // both generations parse alike
		return nil, err
	}
	c, err := newCaller(o, sqlgymServer)
	if err != nil {
		return nil, err
	}
	s := &sqlgym{indexed{instance: instance{caller: c}}}
	if err := s.createBare(ctx, nil); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *sqlgym) Reset(ctx context.Context, index int) (Obs, error) {
	if err := checkIndex("sqlgym", index); err != nil {
		return Obs{}, err
	}
	return s.restart(ctx, sqlgymReset{ItemID: index, EnvIdx: s.idx}, s.resetPair)
}

func (s *sqlgym) Step(ctx context.Context, text string) (StepResult, error) {
	return s.actIndexed(ctx, action.ParseSQL(text))
}

// Close only ends the client: the server has no way to give an instance back.
func (s *sqlgym) Close(context.Context) error { return s.forget() }
