package action

import (
	"strings"
	"unicode"
)

// The parsers of AgentGym's Python clients (protocol section 4), byte for
// byte. Each takes the model's whole text and gives the action to send.

const actionMark = "Action:"

// TwoActions is what ParseOne's client tells the model, without asking the
// server, when its reply holds more than one action.
const TwoActions = "Error: Only one 'Action' is allowed per response. Please adjust your response."

// isSpace is Python's str.isspace, which strip and \s go by: Unicode's white
// space and the four separators U+001C to U+001F.
func isSpace(r rune) bool {
	return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f
}

func strip(s string) string { return strings.TrimFunc(s, isSpace) }

// trimEOS removes a trailing "</s>" the way upstream does: it cuts five
// characters, one more than the token has, so a letter of the action goes
// with it. Kept because rewards of recorded runs depend on it, and because
// tokenizers of today do not produce that text.
func trimEOS(s string) string {
	if !strings.HasSuffix(s, "</s>") {
		return s
	}
	r := []rune(s)
	return string(r[:max(len(r)-5, 0)])
}

// ParseSplit is P-SPLIT: what stands between the first and the second
// "Action:", the whole text if there is none.
func ParseSplit(text string) string {
	parts := strings.Split(trimEOS(text), actionMark)
	if len(parts) == 1 {
		return strip(parts[0])
	}
	return strip(parts[1])
}

// ParseCraft1 is P-CRAFT1 (TextCraft, G1): what follows the last "Action:" of
// the text before the first "Instruction:", in plain characters.
func ParseCraft1(text string) string {
	text, _, _ = strings.Cut(text, "Instruction:")
	if i := strings.LastIndex(text, actionMark); i >= 0 {
		text = text[i+len(actionMark):]
	}
	return plain(text)
}

// ParseOne is P-ONE (TextCraft, G2): the one line after "Action:" in plain
// characters, empty if there is none. ok is false if there are several: then
// nothing is sent and the model is told TwoActions.
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

// ParseReact is P-REACT: what follows the last "Action:". Without one, the
// whole text if it holds a web-shop action, else nothing. The clients that
// use it trim "</s>" first, as here.
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

// plain deletes every character but ASCII letters, digits, comma and space,
// makes runs of spaces one, and strips.
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

// The parsers that look for triple backticks (protocol 4.1).

const Fence = "```"

// NoFence is what ParseFence's client tells the model, without asking the
// server, when its reply holds no closed block.
const NoFence = "Cannot parse action from response. Your action should be inside triple backticks (```). Please adjust accordingly."

// ParseSQL is P-SQL: what follows the last "```sql", up to the next fence. The
// whole text stands for a query where it is not marked.
func ParseSQL(text string) string {
	const mark = Fence + "sql"
	if i := strings.LastIndex(text, mark); i >= 0 {
		text = text[i+len(mark):]
	}
	text, _, _ = strings.Cut(text, Fence)
	return strip(text)
}

// ParseFence is P-FENCE (WebArena, G2): ok is false if the text holds no
// closed block. The whole text is sent, and the server takes the first block.
func ParseFence(text string) (action string, ok bool) {
	return text, strings.Count(text, Fence) >= 2
}

// uncode takes a block of code out of its fence the way AgentGym does: the
// first line goes if it opens with a fence, the last if it ends with one.
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
