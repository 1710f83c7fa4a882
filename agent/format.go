package agent

import (
	"strings"

	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/action"
)

// Format is one grammar of replies: how the model is told to write an action,
// and how the action is read back. One run uses one format, and its prompt
// states it.
type Format interface {
	Name() string
	// Prompt tells the model the grammar. It follows an instruction that was
	// not worded for this format; it is empty where every recorded
	// instruction states the grammar already.
	Prompt() string
	// Parse reads a reply. It never fails: a reply without an action has OK
	// false and is handed to the environment all the same, whose own parser
	// then decides, as in AgentGym.
	Parse(text string) Parsed
	// StopStrings end a reply as soon as it holds one of them.
	StopStrings() []string
}

// Parsed is what a Format found in a reply.
type Parsed struct {
	Action string // the action alone, for people and metrics
	Text   string // what env.Client.Step is given
	OK     bool   // an action was found
	Final  bool   // the reply is an answer that is meant to be the last one
}

// Formats holds the formats by name.
var Formats = registry.New[Format]("prompt format")

func init() {
	for _, f := range []Format{react{}, actionTags{}} {
		Formats.Register(f.Name(), f)
	}
}

const actionMark = "Action:"

// afterMark is what stands between the first and the second "Action:".
func afterMark(text string) (string, bool) {
	_, rest, found := strings.Cut(text, actionMark)
	if !found {
		return "", false
	}
	action, _, _ := strings.Cut(rest, actionMark)
	return strings.TrimSpace(action), true
}

// react is AgentGym's own format: "Thought:" and "Action:" lines. The whole
// reply goes to the client, whose parser, one per environment, cuts the action
// out (protocol section 4); what is found here is only what can be said
// without knowing the environment.
type react struct{}

func (react) Name() string          { return env.FormatReact }
func (react) Prompt() string        { return "" }
func (react) StopStrings() []string { return nil }

func (react) Parse(text string) Parsed {
	action, ok := afterMark(text)
	return Parsed{Action: action, Text: text, OK: ok}
}

// The formats in which the model calls functions: AgentGym's function_calling,
// a JSON object, and code_as_action, a call in Python. Like react they hand
// the whole reply to the client, which must have been told the same format
// (env.Options.ActionFormat) and knows which functions there are.

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

// callsFunctions reports whether f is one of the formats here. What was
// recorded for other formats, instruction and replies, is then of no use: it
// names no functions.
func callsFunctions(f Format) bool { return action.Format(f.Name()).Calls() }
