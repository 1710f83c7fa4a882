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
// 4.5), so the inner text is handed on behind one: behind its own, where it has
// one already. A server that looks for tags of its own in the text (searchqa,
// protocol 5.11) is given a block of them as the model wrote it.
type actionTags struct {
	own []string // the server's tags
}

func (actionTags) Name() string { return env.FormatActionTags }

func (actionTags) Prompt() string {
	return "Write your reply in this form whatever was said about its form before: think first, " +
		"then give exactly one action between tags, like this:\n<action>your action</action>"
}

func (actionTags) StopStrings() []string { return []string{"</action>", "</act>"} }

// Fit learns which tags are the server's.
func (actionTags) Fit(spec env.Spec, _ FormatOptions) (Format, error) { return tagsOf(spec), nil }

func tagsOf(spec env.Spec) actionTags { return actionTags{own: spec.OwnTags} }

func (f actionTags) Parse(text string) Parsed {
	for _, tag := range []string{"action", "act"} {
		if inner, ok := tagged(text, tag); ok {
			if rest, ok := strings.CutPrefix(inner, actionMark); ok {
				inner = strings.TrimSpace(rest)
			}
			return Parsed{Action: inner, Text: actionMark + " " + inner, OK: true}
		}
	}
	if block, tag := firstBlock(text, f.own); tag != "" {
		return Parsed{Action: block, Text: block, OK: true, Final: tag == "answer"}
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

// firstBlock is the first closed block of one of the tags, tags included, and
// its tag, "" if there is none.
func firstBlock(text string, tags []string) (block, tag string) {
	first := len(text)
	for _, t := range tags {
		begin := strings.Index(text[:first], "<"+t+">")
		if begin < 0 {
			continue
		}
		inner, _, ok := strings.Cut(text[begin:], "</"+t+">")
		if ok {
			first, block, tag = begin, inner+"</"+t+">", t
		}
	}
	return block, tag
}
