package agent

import (
	"strings"

	"github.com/openmanus/openmanus/data/registry"
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
