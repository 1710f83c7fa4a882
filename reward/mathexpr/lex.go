package mathexpr

import (
	"errors"
	"fmt"
	"strings"
)

var errTooLong = fmt.Errorf("the expression has more than %d characters", maxText)

// Python parses arithmetic as Python's eval does: + - * / // ** and brackets over
// integers and decimals. As in Python, an integer with a leading zero is an error.
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
			return nil, fmt.Errorf("unexpected character %q", c)
		}
	}
	return parse(tokens, false)
}

// commands maps the known LaTeX commands to tokens.
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
		commands[space] = token{} // ignored
	}
}

// LaTeX parses an expression as people write answers: \frac, \sqrt, powers, the
// usual functions, letters as variables, e as the number, and products without a
// sign. Unknown commands and characters are errors, and so are ambiguous forms:
//
//   - 2\frac{1}{2}, a mixed number or a product, and 2e3, a power of ten or a product;
//   - i, the imaginary unit or an index;
//   - adjacent letters: xy+1 is read as a product, but letters without an operator,
//     as in ABC, are more likely a name, and lnx may contain a function.
func LaTeX(text string) (*Node, error) {
	if len(text) > maxText {
		return nil, errTooLong
	}
	var tokens []token
	joined := false // there are adjacent letters
	after := func(kind byte) bool { return len(tokens) > 0 && tokens[len(tokens)-1].kind == kind }
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
				return nil, errors.New("a point is not a number")
			}
			if after('n') {
				return nil, fmt.Errorf("%q follows a number", text[i:j])
			}
			if powerOfTen(text[j:]) {
				return nil, fmt.Errorf("%s is ambiguous", text[i:])
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
				if t, ok = withoutBlank(text[i+1 : j]); ok {
					j--
				}
			}
			if !ok {
				return nil, fmt.Errorf("unknown command %s", text[i:j])
			}
			if t.text == "frac" && after('n') {
				return nil, errors.New("a number before a fraction is ambiguous")
			}
			if t.kind != 0 {
				tokens = append(tokens, t)
			}
			i = j
		case letter(c):
			j := i
			for j < len(text) && letter(text[j]) {
				j++
			}
			if err := checkLetters(text[i:j]); err != nil {
				return nil, err
			}
			joined = joined || j-i > 1
			for ; i < j; i++ {
				if text[i] == 'e' {
					tokens = append(tokens, token{'c', "e"})
				} else {
					tokens = append(tokens, token{'v', text[i : i+1]})
				}
			}
		case strings.IndexByte("+-*/^(){}[]|", c) >= 0:
			tokens = append(tokens, token{'o', string(c)})
			i++
		default:
			return nil, fmt.Errorf("unexpected character %q", c)
		}
	}
	if joined && !operates(tokens) {
		return nil, errors.New("adjacent letters without an operator may be a name")
	}
	return parse(tokens, true)
}

// named lists names that adjacent letters may contain.
var named = []string{"ln", "log", "exp", "sin", "cos", "tan", "cot", "sec", "csc", "abs", "max", "min", "mod", "gcd", "lcm", "pi"}

// checkLetters returns an error for adjacent letters that are unlikely to be a
// product of variables. Four letters or more count as a word.
func checkLetters(letters string) error {
	if len(letters) > 3 {
		return errors.New("words are not an expression")
	}
	for _, name := range named {
		if strings.Contains(letters, name) {
			return fmt.Errorf("%s is ambiguous", letters)
		}
	}
	if strings.Contains(letters, "i") {
		return errors.New("i may be the imaginary unit")
	}
	return nil
}

// withoutBlank reads \lnx as \ln x: normalised answers have no blanks, and LaTeX has
// no such command. \sinh is a different function.
func withoutBlank(name string) (token, bool) {
	last := max(0, len(name)-1)
	t, ok := commands[name[:last]]
	return t, ok && t.kind == 'f' && t.text != "frac" && t.text != "sqrt" && name[last:] != "h"
}

// operates reports whether tokens have a function or a binary operator.
func operates(tokens []token) bool {
	for i, t := range tokens {
		switch {
		case t.kind == 'f' || t.kind == 'o' && strings.Contains("*/^", t.text):
			return true
		case t.kind == 'o' && strings.Contains("+-", t.text) && i > 0:
			if before := tokens[i-1]; before.kind != 'o' || strings.Contains(")}]|", before.text) {
				return true
			}
		}
	}
	return false
}

// powerOfTen reports whether text, which follows a number, is an exponent as in 1e9.
func powerOfTen(text string) bool {
	if text == "" || text[0] != 'e' && text[0] != 'E' {
		return false
	}
	text = strings.TrimLeft(text[1:], "+-")
	return text != "" && digit(text[0])
}

func digit(c byte) bool  { return c >= '0' && c <= '9' }
func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
