package env

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/openmanus/openmanus/env/action"
)

// WebArena (protocol 5.8), a Quart server. /create answers an object and
// starts a browser; the task is called "idx" and comes with a seed that is
// always 0; the prompt is asked for after /reset; the whole text is sent and
// the server takes the first fenced block of it.
//
// A step that is not the last has reward 1 if the browser did it, which says
// nothing about the task: AgentGym's current client hands on 0 for those, and
// so does this one under both parsers. Only "stop" ends a task.

var webarenaServer = server{keys: stepKeys{observation: "observation", reward: "reward", done: "terminated"}}

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

type webarena struct {
	indexed
	generation action.Parser
}

type webarenaReset struct {
	Seed   int             `json:"seed"`
	Idx    int             `json:"idx"`
	EnvIdx json.RawMessage `json:"env_idx"`
}

func newWebarena(ctx context.Context, o Options) (Client, error) {
	generation, err := o.parser("webarena")
	if err != nil {
		return nil, err
	}
	c, err := newCaller(o, webarenaServer)
	if err != nil {
		return nil, err
	}
	w := &webarena{indexed: indexed{instance: instance{caller: c}}, generation: generation}
	raw, err := w.post(ctx, OpCreate, "/create", nil)
	if err != nil {
		return nil, err
	}
	r := w.object(OpCreate, "/create", raw)
	r.readID("env_idx", &w.id)
	if r.err != nil {
		return nil, r.err
	}
	w.know(r.fields["env_idx"], string(r.fields["env_idx"]))
	return w, nil
}

func (w *webarena) Reset(ctx context.Context, index int) (Obs, error) {
	if err := checkIndex("webarena", index); err != nil {
		return Obs{}, err
	}
	return w.restart(ctx, webarenaReset{Idx: index, EnvIdx: w.idx}, w.resetPage)
}

// resetTimeout is the observation of a /reset that failed.
const resetTimeout = "TimeoutError"

// resetPage checks a /reset reply. OpenManus-RL's copy of the server says
// nothing but the observation.
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

// Step sends the whole text. One without a fenced block is answered here
// under the G2 parser.
func (w *webarena) Step(ctx context.Context, text string) (StepResult, error) {
	if _, ok := action.ParseFence(text); !ok && w.generation == action.ParserG2 {
		return StepResult{Observation: action.NoFence}, nil
	}
	res, err := w.actIndexed(ctx, text)
	if !res.Done {
		res.Reward = 0
	}
	return res, err
}

// Close gives the instance back, which ends its browser. OpenManus-RL's copy
// of the server answers the bare word closed.
func (w *webarena) Close(ctx context.Context) error {
	err := w.giveBack(ctx)
	if isWords(err, "closed") {
		return nil
	}
	return err
}
