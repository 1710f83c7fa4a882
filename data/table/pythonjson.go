package table

import (
	"strconv"
	"unicode/utf8"
)

// conversationText is a conversation as Python's json.dumps writes it, which
// OpenManus-RL's files hold beside the conversation itself (protocol 7.2).
func conversationText(messages []RecordMessage) string {
	out := []byte{'['}
	for i := range messages {
		m := &messages[i]
		if i > 0 {
			out = append(out, ", "...)
		}
		out = append(out, `{"from": `...)
		out = appendPython(out, m.from())
		out = append(out, `, "loss": `...)
		if m.Loss == nil {
			out = append(out, "null"...)
		} else {
			out = strconv.AppendBool(out, *m.Loss)
		}
		out = append(out, `, "value": `...)
		out = append(appendPython(out, m.text()), '}')
	}
	return string(append(out, ']'))
}

// appendPython writes a string as json.dumps does: ASCII only, what lies
// outside of UTF-16's basic plane as two escapes.
func appendPython(out []byte, s *string) []byte {
	if s == nil {
		return append(out, "null"...)
	}
	short := map[rune]byte{'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}
	out = append(out, '"')
	for _, r := range *s { // invalid bytes come as U+FFFD
		switch {
		case short[r] != 0:
			out = append(out, '\\', short[r])
		case r >= ' ' && r < utf8.RuneSelf:
			out = append(out, byte(r))
		case r > 0xffff:
			out = appendEscape(appendEscape(out, 0xd800+(r-0x10000)>>10), 0xdc00+(r-0x10000)&0x3ff)
		default:
			out = appendEscape(out, r)
		}
	}
	return append(out, '"')
}

func appendEscape(out []byte, r rune) []byte {
	const hex = "0123456789abcdef"
	return append(out, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}
