package agent

import (
	"strings"

	"github.com/openmanus/openmanus/env"
)

// actionTags is the tagged format of OpenManus-RL, with a parser that accepts the
// tags of its prompts. Upstream's parser accepts only <action> and <response>, but
// its training prompt requests <act> and <answer>, so a model that follows the
// prompt sends an empty action. The parser tries the tags in the order of spec 3.3
// and takes the first tag that is closed, at any position.
//
// The clients of current AgentGym require "Action:" before an action (protocol
// 4.5), so Parse adds it to the inner text if it is missing. A server that defines
// other tags (searchqa, protocol 5.11) receives a block of these tags unchanged.
type actionTags struct {
	own []string // the tags that the server defines
}

func (actionTags) Name() string  { return env.FormatActionTags }
func (actionTags) MarksAnswers() {}

func (actionTags) Prompt() string {
	return "Write your reply in this form whatever was said about its form before: think first, " +
		"then give exactly one action between tags, like this:\n<action>your action</action>"
}

func (actionTags) StopStrings() []string { return []string{"</action>", "</act>"} }

// Fit returns the format with the tags that the environment's server defines.
func (actionTags) Fit(spec env.Spec, _ FormatOptions) (Format, error) {
	return actionTags{spec.OwnTags}, nil
}

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

// tagged returns the trimmed text of the first closed <tag>. The tag is
// case-sensitive, as upstream.
func tagged(text, tag string) (string, bool) {
	_, rest, ok := strings.Cut(text, "<"+tag+">")
	if !ok {
		return "", false
	}
	inner, _, ok := strings.Cut(rest, "</"+tag+">")
	return strings.TrimSpace(inner), ok
}

// firstBlock returns the first closed block of any of the tags, with its tags,
// and the name of the tag. Both results are "" if there is no such block.
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
