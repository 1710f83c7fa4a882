package action

import "slices"

// Parser selects a generation of AgentGym's Python client. Where the two
// generations read the action differently, the parsers here follow the selected one.
type Parser string

// The generations of the client (protocol section 0). The empty Parser is ParserG2.
const (
	ParserG1 Parser = "g1" // the copy inside OpenManus-RL
	ParserG2 Parser = "g2" // AgentGym's current client

	// ParserWhole sends the whole reply. Only servers of a user's own environment have it.
	ParserWhole Parser = "whole"
)

// Format selects how a reply states its action, in the environments whose
// current client accepts several formats.
type Format string

// The action formats (protocol section 3). The empty Format is React.
const (
	React           Format = "react"            // text after "Action:"
	FunctionCalling Format = "function_calling" // a JSON object
	CodeAsAction    Format = "code_as_action"   // a call in Python
)

// CallFormats lists the formats in which the model calls functions.
var CallFormats = []Format{FunctionCalling, CodeAsAction}

// Calls reports whether the model calls functions under f.
func (f Format) Calls() bool { return slices.Contains(CallFormats, f) }

// Invalid is the beginning of the observation that answers an invalid function
// call (protocol 4.4). The previous observation follows it.
const Invalid = "Invalid Action.\n\n"

// Grammar reads the actions of environments that support several formats.
type Grammar struct {
	Parser    Parser
	Format    Format
	Functions Functions
}

// Parse returns the action to send. ok is false if the reply contains no valid
// function call; the client then sends nothing. Under React every reply is an action.
func (g Grammar) Parse(text string) (action string, ok bool) {
	if g.Parser == ParserG1 {
		return ParseSplit(text), true
	}
	switch g.Format {
	case FunctionCalling:
		return g.Functions.ParseJSON(trimEOS(text))
	case CodeAsAction:
		return g.Functions.ParsePython(trimEOS(text))
	}
	return ParseReact(text), true
}
