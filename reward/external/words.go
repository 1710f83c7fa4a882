package external

import (
	"errors"
	"strings"
)

// Words are those of the command of a program, the program's first; nil for a
// score function that is none.
func Words(fn string) []string {
	command, ok := strings.CutPrefix(fn, "exec:")
	if !ok {
		return nil
	}
	out, err := words(command)
	if err != nil { // which Open says
		return nil
	}
	return out
}

// words cuts a command as a shell does, without anything else that shells do:
// blanks separate, quotes and backslashes keep together.
func words(s string) ([]string, error) {
	var out []string
	var word strings.Builder
	inside := false // a word has begun
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case ' ', '\t', '\n':
			if inside {
				out = append(out, word.String())
				word.Reset()
				inside = false
			}
		case '\'', '"':
			inside = true
			for i++; i < len(s) && s[i] != c; i++ {
				if c == '"' && s[i] == '\\' && i+1 < len(s) && strings.IndexByte(`"\`, s[i+1]) >= 0 {
					i++
				}
				word.WriteByte(s[i])
			}
			if i == len(s) {
				return nil, errors.New("a quote is not closed")
			}
		case '\\':
			if i++; i == len(s) {
				return nil, errors.New("it ends with a backslash")
			}
			inside = true
			word.WriteByte(s[i])
		default:
			inside = true
			word.WriteByte(c)
		}
	}
	if inside {
		out = append(out, word.String())
	}
	if len(out) == 0 {
		return nil, errors.New("no command; write exec:python3 my_reward.py")
	}
	return out, nil
}
