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
	// Prompt describes the grammar to the model. It is appended to instructions
	// that were not written for this format. It is empty if all recorded
	// instructions describe the grammar.
	Prompt() string
	// Parse finds the action in a reply. It never fails: a reply without an
	// action has OK false and is still sent to the environment, whose parser
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
	Action string // for display and metrics
	Text   string // sent by env.Client.Step
	OK     bool   // an action was found
	Final  bool   // the reply is a final answer
}

// Formats holds the formats by name.
var Formats = registry.New[Format]("prompt format")

func init() {
	for _, f := range []Format{react, functionCalling, codeAsAction, actionTags{}, toolCall{}, history{}, staged{}} {
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

// wholeReply is a format whose whole reply goes to the client. The client's parser for
// the environment extracts the action (protocol section 4). The action found here is for
// display and metrics.
type wholeReply struct {
	name string
	find func(reply string) (action string, ok bool)
}

// AgentGym's own formats: "Thought:" and "Action:" lines, and two in which the model
// calls functions, as a JSON object or as a call in Python. For the latter two the client
// defines the functions and must use the same format (env.Options.ActionFormat).
var (
	react           = wholeReply{env.FormatReact, afterMark}
	functionCalling = wholeReply{env.FormatFunctionCalling, action.JSONCall}
	codeAsAction    = wholeReply{env.FormatCodeAsAction, action.PythonCall}
)

func (f wholeReply) Name() string        { return f.name }
func (wholeReply) Prompt() string        { return "" }
func (wholeReply) StopStrings() []string { return nil }

func (f wholeReply) Parse(text string) Parsed {
	found, ok := f.find(text)
	if !ok {
		return Parsed{Text: text}
	}
	return Parsed{Action: strings.TrimSpace(found), Text: text, OK: true}
}

// callsFunctions reports whether the model calls functions in f. Instructions and
// replies recorded for other formats cannot be used with such a format, because they
// name no functions.
func callsFunctions(f Format) bool { return action.Format(f.Name()).Calls() }
