package agent

import (
	"strings"

	"github.com/openmanus/openmanus/env"
)

// actionTags is the tagged format of OpenManus-RL, with a parser that agrees
// with its prompts: upstream's looks for <action> and <response> alone, while
// its training prompt asks for <act> and <answer>, so a model that obeys sends
// the empty action. Tags are looked for in the order of spec 3.3 [ours]; the
// first closed one counts, wherever it stands.
//
// The clients of current AgentGym want "Action:" before an action (protocol
// 4.5), so the inner text is handed on behind one.
type actionTags struct{}

func (actionTags) Name() string { return env.FormatActionTags }

func (actionTags) Prompt() string {
	return "Write your reply in this form whatever was said about its form before: think first, " +
		"then give exactly one action between tags, like this:\n<action>your action</action>"
}

func (actionTags) StopStrings() []string { return []string{"</action>", "</act>"} }

func (actionTags) Parse(text string) Parsed {
	for _, tag := range []string{"action", "act"} {
		if inner, ok := tagged(text, tag); ok {
			return Parsed{Action: inner, Text: actionMark + " " + inner, OK: true}
		}
	}
	if action, ok := afterMark(text); ok {
		return Parsed{Action: action, Text: actionMark + " " + action, OK: true}
	}
	for _, tag := range []string{"response", "answer"} {
		if inner, ok := tagged(text, tag); ok {
			return Parsed{Action: inner, Text: actionMark + " " + inner, OK: true, Final: true}
		}
	}
	return Parsed{Text: text}
}

// tagged is the stripped text of the first closed <tag>. Case counts, as it
// does upstream.
func tagged(text, tag string) (string, bool) {
	_, rest, ok := strings.Cut(text, "<"+tag+">")
	if !ok {
		return "", false
	}
	inner, _, ok := strings.Cut(rest, "</"+tag+">")
	return strings.TrimSpace(inner), ok
}
