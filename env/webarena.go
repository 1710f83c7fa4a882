package env

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/openmanus/openmanus/env/action"
)

// WebArena (protocol 5.8), a Quart server. /create returns an object and starts a
// browser. A reset names the task in the key "idx" and a seed, which is always 0. The
// prompt is requested after /reset. The server receives the model's whole reply and
// reads the first fenced block in it.
//
// A step before the last has reward 1 if the browser executed it, whether it helps
// the task or not. AgentGym's current client replaces this reward by 0, and this
// client does so under both parsers. Only "stop" ends a task.

// webarenaTasks is the number of tasks.
const webarenaTasks = 812

func init() {
	register("webarena", server{
		reset:      `{"seed":0,"idx":%d,"env_idx":%s}`,
		indexed:    true,
		keyedID:    true,
		checkReset: (*instance).isPage,
		parse:      webarenaParse,
		refusal:    action.NoFence,
		doneKey:    "terminated",
		adjust:     onlyLastReward,
		closes:     true,
		closed:     "closed", // the reply of OpenManus-RL's copy of the server
	}, Spec{
		Doc:         "carry out a task on web sites in a browser (AgentGym webarena server)",
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

// resetTimeout is the observation of a failed /reset.
const resetTimeout = "TimeoutError"

// isPage checks a reply to /reset. In OpenManus-RL's copy of the server it only
// contains the observation.
func (in *instance) isPage(raw json.RawMessage) error {
	var page string
	r := in.object(OpReset, "/reset", raw)
	r.read("observation", &page)
	if r.err == nil && page == resetTimeout {
		return &Error{
			Kind: KindEnvironment, Op: OpReset, URL: in.base + "/reset", Status: http.StatusOK, Words: page, Sent: true,
			Err: errors.New("the task's web site did not load in time: is it up?"),
		}
	}
	return r.err
}

// webarenaParse returns the whole reply. It rejects a reply without a fenced block,
// except under ParserG1.
func webarenaParse(g action.Grammar, reply string) (string, bool) {
	_, ok := action.ParseFence(reply)
	return reply, ok || g.Parser == action.ParserG1
}

// onlyLastReward sets the reward of a step that does not end the task to 0.
func onlyLastReward(res *StepResult) {
	if !res.Done {
		res.Reward = 0
	}
}
