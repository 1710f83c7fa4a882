package env

import (
	"strings"

	"github.com/openmanus/openmanus/env/action"
)

// The tool servers (protocol 5.10): weather, movie, academia, todo and sheet
// have the same endpoints and differ in their tools. /create requires a body and
// returns a bare number. The key of the task in a reset is "id". /reset returns a
// bare string, and the goal is requested afterwards. There is no /close.
//
// The model's whole reply is sent. Its last line should be "Action: TOOL with Action
// Input: PARAMETERS", with the parameters in Python; the server answers any
// other text with an explanation, not with an error. The reward is the best reward
// so far. An action that contains the word finish ends the task.

// toolEnv describes one of the tool servers.
type toolEnv struct {
	name    string
	doc     string
	about   string   // the purpose of the tools
	tools   []string // each as "NAME(PARAMETERS): description"
	advice  string
	example string // an example of an action
	ownCall string // an action that only this server accepts, sent before the slow ListTools; "": ListTools is fast
	tasks   int
	turns   int
	most    int                      // Spec.MaxInstances
	answer  func(text string) string // returns the action that gives the answer text under the format tool_call
}

func (e toolEnv) register() {
	if e.answer == nil {
		e.answer = action.ToolAnswer
	}
	register(e.name, server{
		create:  `{"id":0}`,
		reset:   `{"id":%d,"env_idx":%s}`,
		indexed: true,
		ownCall: e.ownCall,
	}, Spec{
		Doc:           e.doc,
		Instruction:   e.instruction,
		ToolCall:      action.ToolCall,
		ToolAnswer:    e.answer,
		Tools:         documentedTools(e.tools),
		SuccessReward: 0.99,
		MaxTurns:      e.turns,
		IndexValid:    below(e.tasks, "goals"),
		MaxInstances:  e.most,
		SharedAccount: e.most == 1,
		Cumulative:    true,
		Greeting:      "ok",
	})
}

func (e toolEnv) instruction(format string) string {
	about := e.about + " You reach a goal by calling tools, one in a reply; each observation is what the last one gave. The tools and their parameters are:\n" +
		strings.Join(e.tools, "\n") + "\n" + e.advice
	if format == FormatToolCall {
		name, input, _ := strings.Cut(e.example, " with Action Input: ")
		return about + " A tool's input is an object with its parameters ({} if there are none).\n" + action.ToolShape(name, input)
	}
	return about + " Write the tool's name, the words \"with Action Input:\" and its parameters as a dictionary in Python's notation ({} if there are none), all on one line.\n" +
		lineShape(format, e.example)
}
