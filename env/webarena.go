package env

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/openmanus/openmanus/env/action"
)

// WebArena (protocol 5.8), a Quart server. /create returns an object and starts a
// browser; the task is called "idx" and has a seed that is always 0; the prompt
// is requested after /reset; the whole reply is sent, and the server reads the
// first fenced block.
//
// A step before the last has reward 1 if the browser carried it out, which says
// nothing about the task. AgentGym's current client replaces it by 0, and so
// does this one under both parsers. Only "stop" ends a task.

var webarenaServer = server{closes: true, keys: stepKeys{observation: "observation", reward: "reward", done: "terminated"}}

// webarenaTasks is the number of tasks.
const webarenaTasks = 812

func init() {
	Register("webarena", Spec{
		Doc:         "carry out a task on web sites in a browser (AgentGym webarena server)",
		New:         newWebarena,
		Instruction: webarenaInstruction,
		MaxTurns:    25,
		IndexValid:  below(webarenaTasks, "tasks"),
		Greeting:    "ok",

		SuccessReward: 0.99,
	})
}

func webarenaInstruction(format string) string {
	return "You use a web browser to reach an objective. " +
		"Each observation shows the page as a tree of elements with a number in brackets before each, its URL, the objective, and your previous action. " +
		"You have these commands, one in a reply, between triple backticks: " +
		"click [id]; hover [id]; type [id] [text] [1] (with 0 in place of 1 Enter is not pressed afterwards); press [keys], such as press [Control+v]; " +
		"scroll [down] or scroll [up]; goto [url]; go_back; go_forward; new_tab; tab_focus [number]; close_tab; " +
		"stop [answer] (ends the task: give the answer if the objective asks for one, else leave it empty). " +
		"Use only numbers that the page shows, and triple backticks only around the command.\n" +
		replyShape(format, action.Fence+"click [12]"+action.Fence)
}

type webarena struct{ indexed }

type webarenaReset struct {
	Seed   int             `json:"seed"`
	Idx    int             `json:"idx"`
	EnvIdx json.RawMessage `json:"env_idx"`
}

func newWebarena(ctx context.Context, o Options) (Client, error) {
	in, err := newIndexed(ctx, "webarena", o, webarenaServer, nil, func(in *indexed, raw json.RawMessage) error {
		r := in.object(OpCreate, "/create", raw)
		r.readID("env_idx", &in.id)
		in.setID(r.fields["env_idx"], string(r.fields["env_idx"]))
		return r.err
	})
	if err != nil {
		return nil, err
	}
	return &webarena{in}, nil
}

func (w *webarena) Reset(ctx context.Context, index int) (Obs, error) {
	return w.restart(ctx, index, webarenaReset{Idx: index, EnvIdx: w.idx}, w.resetPage)
}

// resetTimeout is the observation of a failed /reset.
const resetTimeout = "TimeoutError"

// resetPage checks a /reset reply, which in OpenManus-RL's copy of the server has
// the observation only.
func (w *webarena) resetPage(raw json.RawMessage) error {
	var page string
	r := w.object(OpReset, "/reset", raw)
	r.read("observation", &page)
	if r.err == nil && page == resetTimeout {
		return &Error{
			Kind: KindEnvironment, Op: OpReset, URL: w.base + "/reset", Status: http.StatusOK, Words: page, Sent: true,
			Err: errors.New("the task's web site did not load in time: is it up?"),
		}
	}
	return r.err
}

// Step sends the whole reply. Under ParserG2 a reply without a fenced block is
// answered here.
func (w *webarena) Step(ctx context.Context, text string) (StepResult, error) {
	if _, ok := action.ParseFence(text); !ok && w.grammar.Parser == action.ParserG2 {
		return StepResult{Observation: action.NoFence}, nil
	}
	res, err := w.actIndexed(ctx, text)
	if !res.Done {
		res.Reward = 0
	}
	return res, err
}

// Close gives the instance back, which ends its browser. OpenManus-RL's copy of
// the server answers with the word "closed", which is not JSON.
func (w *webarena) Close(ctx context.Context) error {
	err := w.indexed.Close(ctx)
	var e *Error
	if errors.As(err, &e) && e.Kind == KindMalformed && e.Status == http.StatusOK && e.Words == "closed" {
		return nil
	}
	return err
}
