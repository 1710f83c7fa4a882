package agent

import (
	"strings"

	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/action"
)

// Format is a grammar of replies: the prompt that describes it to the model, and
// the parser of actions.
type Format interface {
	Name() string
	// Prompt describes the grammar to the model. It follows instructions that
	// were not written for this format, and is empty if all recorded
	// instructions describe the grammar.
	Prompt() string
	// Parse finds the action in a reply. It never fails: a reply without an
	// action has OK false and is still sent to the environment, whose own parser
	// decides, as in AgentGym.
	Parse(text string) Parsed
	// StopStrings returns strings that end a reply as soon as it contains one.
	StopStrings() []string
}

// Answering is a Format in which a reply can be marked as the last one
// (Parsed.Final).
type Answering interface {
	Format
	MarksAnswers()
}

// Parsed is the result of parsing a reply.
type Parsed struct {
	Action string // the action alone, for display and metrics
	Text   string // sent by env.Client.Step
	OK     bool   // an action was found
	Final  bool   // the reply is a final answer
}

// Formats holds the formats by name.
var Formats = registry.New[Format]("prompt format")

func init() {
	for _, f := range []Format{react{}, actionTags{}} {
		Formats.Register(f.Name(), f)
	}
}

const actionMark = "Action:"

// afterMark returns the text between the first and the second "Action:".
func afterMark(text string) (string, bool) {
	_, rest, found := strings.Cut(text, actionMark)
	if !found {
		return "", false
	}
	action, _, _ := strings.Cut(rest, actionMark)
	return strings.TrimSpace(action), true
}

// react is AgentGym's own format: "Thought:" and "Action:" lines. The whole
// reply goes to the client, whose parser for the environment extracts the action
// (protocol section 4). The action found here is for display and metrics.
type react struct{}

func (react) Name() string          { return env.FormatReact }
func (react) Prompt() string        { return "" }
func (react) StopStrings() []string { return nil }

func (react) Parse(text string) Parsed {
	action, ok := afterMark(text)
	return Parsed{Action: action, Text: text, OK: ok}
}

// The formats in which the model calls functions: AgentGym's function_calling,
// a JSON object, and code_as_action, a call in Python. Like react they pass the
// whole reply to the client, which must use the same format
// (env.Options.ActionFormat) and knows the functions.

func init() {
	Formats.Register(env.FormatFunctionCalling, functionCalling{})
	Formats.Register(env.FormatCodeAsAction, codeAsAction{})
}

type functionCalling struct{}

func (functionCalling) Name() string          { return env.FormatFunctionCalling }
func (functionCalling) Prompt() string        { return "" }
func (functionCalling) StopStrings() []string { return nil }

func (functionCalling) Parse(text string) Parsed { return called(text, action.JSONCall) }

type codeAsAction struct{}

func (codeAsAction) Name() string          { return env.FormatCodeAsAction }
func (codeAsAction) Prompt() string        { return "" }
func (codeAsAction) StopStrings() []string { return nil }

func (codeAsAction) Parse(text string) Parsed { return called(text, action.PythonCall) }

func called(text string, find func(string) (string, bool)) Parsed {
	call, ok := find(text)
	if !ok {
		return Parsed{Text: text}
	}
	return Parsed{Action: strings.TrimSpace(call), Text: text, OK: true}
}

// callsFunctions reports whether f is one of these formats. Instructions and
// replies recorded for other formats cannot be used with them, because they name
// no functions.
func callsFunctions(f Format) bool { return action.Format(f.Name()).Calls() }
