package agent

import (
	"strings"

	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/action"
)

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
