package env

import "strings"

// The parsers that look for triple backticks (protocol 4.1).

const fence = "```"

// NoFence is what ParseFence's client tells the model, without asking the
// server, when its reply holds no closed block.
const NoFence = "Cannot parse action from response. Your action should be inside triple backticks (```). Please adjust accordingly."

// ParseSQL is P-SQL: what follows the last "```sql", up to the next fence. The
// whole text stands for a query where it is not marked.
func ParseSQL(text string) string {
	const mark = fence + "sql"
	if i := strings.LastIndex(text, mark); i >= 0 {
		text = text[i+len(mark):]
	}
	text, _, _ = strings.Cut(text, fence)
	return strip(text)
}

// ParseFence is P-FENCE (WebArena, G2): ok is false if the text holds no
// closed block. The whole text is sent, and the server takes the first block.
func ParseFence(text string) (action string, ok bool) {
	return text, strings.Count(text, fence) >= 2
}

// uncode takes a block of code out of its fence the way AgentGym does: the
// first line goes if it opens with a fence, the last if it ends with one.
func uncode(text string) string {
	text = strip(text)
	if strings.HasPrefix(text, fence) {
		if _, rest, ok := strings.Cut(text, "\n"); ok {
			text = rest
		}
	}
	if strings.HasSuffix(text, fence) {
		if i := strings.LastIndexByte(text, '\n'); i >= 0 {
			text = text[:i]
		}
	}
	return text
}
