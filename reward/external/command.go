package external

import (
	"errors"
	"strings"
)

// Args returns the program and the arguments of an exec: score function. It returns
// nil for other score functions, and for an invalid command, which Open reports.
func Args(fn string) []string {
	command, ok := strings.CutPrefix(fn, "exec:")
	if !ok {
		return nil
	}
	args, _ := splitCommand(command)
	return args
}

// splitCommand splits a command at white space outside of quotes. Quotes and backslashes
// have the meaning of a shell. Variables and patterns are not expanded.
func splitCommand(s string) ([]string, error) {
	var out []string
	var word strings.Builder
	inside := false // within a word
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
				return nil, errors.New("a quote in the command is not closed")
			}
		case '\\':
			if i++; i == len(s) {
				return nil, errors.New("the command ends with a backslash")
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
		return nil, errors.New("the command is empty; write for example exec:python3 my_reward.py")
	}
	return out, nil
}
