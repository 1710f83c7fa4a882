package action

import (
	"strings"
	"unicode"
)

// The parsers of AgentGym's Python clients (protocol section 4), reproduced byte
// for byte. Each takes the model's whole reply and returns the action to send.

const actionMark = "Action:"

// TwoActions is the observation for a reply with more than one action. A client that
// uses ParseOne returns it without a request to the server.
const TwoActions = "Error: Only one 'Action' is allowed per response. Please adjust your response."

// isSpace is Python's str.isspace, used by strip and \s: Unicode's white space and
// the four separators U+001C to U+001F.
func isSpace(r rune) bool {
	return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f
}

func strip(s string) string { return strings.TrimFunc(s, isSpace) }

// trimEOS removes a trailing "</s>" as upstream does: it cuts five characters, the
// four of the token and the last letter of the action. Rewards of recorded runs
// depend on this cut. Current tokenizers do not produce "</s>" as text.
func trimEOS(s string) string {
	if !strings.HasSuffix(s, "</s>") {
		return s
	}
	r := []rune(s)
	return string(r[:max(len(r)-5, 0)])
}

// ParseSplit is P-SPLIT: the text between the first and the second "Action:", or
// the whole text if it does not contain "Action:".
func ParseSplit(text string) string {
	text = trimEOS(text)
	if _, after, ok := strings.Cut(text, actionMark); ok {
		text, _, _ = strings.Cut(after, actionMark)
	}
	return strip(text)
}

// ParseCraft1 is P-CRAFT1 (TextCraft, G1). It cuts the text at the first
// "Instruction:" and returns the part after the last "Action:", cleaned by the function plain.
func ParseCraft1(text string) string {
	text, _, _ = strings.Cut(text, "Instruction:")
	if i := strings.LastIndex(text, actionMark); i >= 0 {
		text = text[i+len(actionMark):]
	}
	return plain(text)
}

// ParseOne is P-ONE (TextCraft, G2): the line after "Action:", cleaned by the function
// plain, or "" if the text has no "Action:". If "Action:" occurs more than once, ok is false: the
// client then sends nothing, and the observation is TwoActions.
func ParseOne(text string) (action string, ok bool) {
	found := 0
	for {
		i := strings.Index(text, actionMark)
		if i < 0 {
			return plain(action), true
		}
		if found++; found > 1 {
			return "", false
		}
		text = strings.TrimLeftFunc(text[i+len(actionMark):], isSpace)
		action, text, _ = strings.Cut(text, "\n")
	}
}

// ParseReact is P-REACT: the text after the last "Action:". A text without "Action:"
// is the action if it contains a web-shop action, and otherwise the action is "".
// Like the clients that use it, ParseReact trims "</s>" first.
func ParseReact(text string) string {
	text = trimEOS(text)
	if i := strings.LastIndex(text, actionMark); i >= 0 {
		return strip(text[i+len(actionMark):])
	}
	if strings.Contains(text, "search[") || strings.Contains(text, "click[") {
		return strip(text)
	}
	return ""
}

// plain deletes all characters except ASCII letters, digits, commas and spaces,
// replaces runs of spaces by one, and strips.
func plain(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == ',':
			b.WriteRune(r)
		case r == ' ':
			if n := b.Len(); n == 0 || b.String()[n-1] == ' ' {
				continue
			}
			b.WriteRune(r)
		}
	}
	return strings.TrimSuffix(b.String(), " ")
}

const Fence = "```"

// NoFence is the observation for a reply without a closed block. A client that uses
// ParseFence returns it without a request to the server.
const NoFence = "Cannot parse action from response. Your action should be inside triple backticks (```). Please adjust accordingly."

// ParseSQL is P-SQL: the text after the last "```sql", up to the next fence. In a
// reply without "```sql" it is the text up to the first fence.
func ParseSQL(text string) string {
	const mark = Fence + "sql"
	if i := strings.LastIndex(text, mark); i >= 0 {
		text = text[i+len(mark):]
	}
	text, _, _ = strings.Cut(text, Fence)
	return strip(text)
}

// ParseFence is P-FENCE (WebArena, G2): it returns the whole text, and the server
// reads its first block. ok is false if the text contains no closed block.
func ParseFence(text string) (action string, ok bool) {
	return text, strings.Count(text, Fence) >= 2
}

// uncode removes the fence of a block of code as AgentGym does: the first line if the
// text begins with a fence, and the last line if the text ends with a fence.
func uncode(text string) string {
	text = strip(text)
	if strings.HasPrefix(text, Fence) {
		if _, rest, ok := strings.Cut(text, "\n"); ok {
			text = rest
		}
	}
	if strings.HasSuffix(text, Fence) {
		if i := strings.LastIndexByte(text, '\n'); i >= 0 {
			text = text[:i]
		}
	}
	return text
}
