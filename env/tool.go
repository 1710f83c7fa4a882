package env

import (
	"context"
	"strings"

	"github.com/openmanus/openmanus/env/action"
)

// The tool servers (protocol 5.10): weather, movie, academia, todo and sheet
// speak the same HTTP and differ in their tools. /create wants a body and
// answers a bare number, the task is called "id", /reset answers a bare string
// and the goal is asked for afterwards, there is no /close.
//
// The whole text is sent. The server wants "Action: TOOL with Action Input:
// PARAMETERS" as its last line and evaluates the parameters as Python; any
// other text is answered with words, not with an error. The reward is the best
// so far, and an action that holds the word finish ends the task.

var toolServer = server{}

// toolEnv is what is special about one of the servers.
type toolEnv struct {
	name    string
	doc     string
	about   string   // what the tools are for
	tools   []string // each as NAME(PARAMETERS): what it does
	advice  string
	example string // an action
	ownCall string // an action that the other servers do not know; "" where ListTools is answered at once
	tasks   int
	turns   int
	most    int                      // instances a server holds; 0: any number
	answer  func(text string) string // under the format tool_call
}

func (e toolEnv) register() {
	if e.answer == nil {
		e.answer = action.ToolAnswer
	}
	Register(e.name, Spec{
		Doc:           e.doc,
		New:           e.open,
		Instruction:   e.instruction,
		ToolCall:      action.ToolCall,
		ToolAnswer:    e.answer,
		Tools:         documentedTools(e.tools),
		SuccessReward: 0.99,
		MaxTurns:      e.turns,
		IndexValid:    below(e.tasks, "goals"),
		MaxInstances:  e.most,
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

type tool struct {
	indexed
	name    string
	ownCall string
}

func (e toolEnv) open(ctx context.Context, o Options) (Client, error) {
	if _, err := o.parser(e.name); err != nil { // both generations send the text
		return nil, err
	}
	c, err := newCaller(o, toolServer)
	if err != nil {
		return nil, err
	}
	t := &tool{indexed: indexed{instance: instance{caller: c}}, name: e.name, ownCall: e.ownCall}
	if err := t.createBare(ctx, toolCreate{}); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *tool) Reset(ctx context.Context, index int) (Obs, error) {
	if err := checkIndex(t.name, index); err != nil {
		return Obs{}, err
	}
	return t.restart(ctx, toolReset{ID: index, EnvIdx: t.idx}, t.resetText)
}

func (t *tool) Step(ctx context.Context, text string) (StepResult, error) {
	return t.actIndexed(ctx, text)
}

// Close only ends the client: the server has no way to give an instance back.
func (t *tool) Close(context.Context) error { return t.forget() }
