package mathexpr

import (
	"errors"
	"fmt"
	"strings"
)

var errTooLong = fmt.Errorf("the expression has more than %d characters", maxText)

// Python reads arithmetic as Python's eval would: + - * / // ** and brackets
// over integers and decimals. An integer with a leading zero is an error there
// and here.
func Python(text string) (*Node, error) {
	if len(text) > maxText {
		return nil, errTooLong
	}
	var tokens []token
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case strings.IndexByte(" \t\r\n\f\v", c) >= 0:
			i++
		case digit(c) || c == '.':
			j := i
			for j < len(text) && (digit(text[j]) || text[j] == '.') {
				j++
			}
			n := text[i:j]
			if n == "." || len(n) > 1 && n[0] == '0' && !strings.Contains(n, ".") && strings.Trim(n, "0") != "" {
				return nil, fmt.Errorf("%q is not a number", n)
			}
			tokens = append(tokens, token{'n', n})
			i = j
		case strings.HasPrefix(text[i:], "**"):
			tokens = append(tokens, token{'o', "^"})
			i += 2
		case strings.HasPrefix(text[i:], "//"):
			tokens = append(tokens, token{'o', "//"})
			i += 2
		case strings.IndexByte("+-*/()", c) >= 0:
			tokens = append(tokens, token{'o', string(c)})
			i++
		default:
			return nil, fmt.Errorf("%q is not arithmetic", c)
		}
	}
	return parse(tokens, false)
}

// The LaTeX commands that are known, by what they become.
var commands = map[string]token{
	"cdot": {'o', "*"}, "times": {'o', "*"}, "ast": {'o', "*"}, "div": {'o', "/"}, "pi": {'c', "pi"},
	"lvert": {'o', "|"}, "rvert": {'o', "|"},
	"alpha": {'v', "alpha"}, "beta": {'v', "beta"}, "gamma": {'v', "gamma"}, "theta": {'v', "theta"}, "phi": {'v', "phi"},
	"lambda": {'v', "lambda"}, "mu": {'v', "mu"}, "omega": {'v', "omega"},
}

func init() {
	for _, f := range []string{"frac", "sqrt", "exp", "ln", "log", "sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan"} {
		commands[f] = token{'f', f}
	}
	for _, f := range []string{"dfrac", "tfrac"} {
		commands[f] = token{'f', "frac"}
	}
	for _, space := range []string{"left", "right", "quad", ",", ";", ":", "!", " "} {
		commands[space] = token{} // says nothing
	}
}

// LaTeX reads an expression as people write answers: \frac, \sqrt, powers, the
// usual functions, letters as variables, and products without a sign. What it
// does not know is an error, never a guess.
func LaTeX(text string) (*Node, error) {
	if len(text) > maxText {
		return nil, errTooLong
	}
	var tokens []token
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case strings.IndexByte(" \t\r\n$", c) >= 0:
			i++
		case digit(c) || c == '.':
			j := i
			for j < len(text) && (digit(text[j]) || text[j] == '.') {
				j++
			}
			if text[i:j] == "." {
				return nil, errors.New("a full stop is not a number")
			}
			tokens = append(tokens, token{'n', text[i:j]})
			i = j
		case c == '\\':
			j := i + 1
			for j < len(text) && letter(text[j]) {
				j++
			}
			if j == i+1 && j < len(text) {
				j++
			}
			t, ok := commands[text[i+1:j]]
			if !ok {
				return nil, fmt.Errorf("%s is not known", text[i:j])
			}
			if t.kind != 0 {
				tokens = append(tokens, t)
			}
			i = j
		case letter(c):
			if i+1 < len(text) && letter(text[i+1]) && word(text[i:]) {
				return nil, errors.New("words are not an expression")
			}
			tokens = append(tokens, token{'v', string(c)})
			i++
		case strings.IndexByte("+-*/^(){}[]|", c) >= 0:
			tokens = append(tokens, token{'o', string(c)})
			i++
		default:
			return nil, fmt.Errorf("%q is not known", c)
		}
	}
	return parse(tokens, true)
}

// word reports whether text begins with four letters or more: a word rather
// than a product of variables.
func word(text string) bool {
	n := 0
	for n < len(text) && letter(text[n]) {
		n++
	}
	return n > 3
}

func digit(c byte) bool  { return c >= '0' && c <= '9' }
func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
