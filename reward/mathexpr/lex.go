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
// usual functions, letters as variables, e as the number, and products without
// a sign. What it does not know is an error, never a guess, and so is what is
// written in one way for two things:
//
//   - 2\frac{1}{2}, a mixed number or a product, and 2e3, a power of ten or one;
//   - i, the imaginary unit or an index;
//   - letters side by side, a product in xy+1, but in an answer without an
//     operator rather a name or a word, as in ABC; and with the name of a
//     function among them, as in lnx.
func LaTeX(text string) (*Node, error) {
	if len(text) > maxText {
		return nil, errTooLong
	}
	var tokens []token
	joined := false // letters stand side by side
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
				return nil, errors.New("a full stop is not a number")
			}
			if after('n') {
				return nil, fmt.Errorf("%q follows a number", text[i:j])
			}
			if powerOfTen(text[j:]) {
				return nil, fmt.Errorf("%s can be read in two ways", text[i:])
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
				return nil, fmt.Errorf("%s is not known", text[i:j])
			}
			if t.text == "frac" && after('n') {
				return nil, errors.New("a number before a fraction can be read in two ways")
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
			return nil, fmt.Errorf("%q is not known", c)
		}
	}
	if joined && !operates(tokens) {
		return nil, errors.New("letters side by side without an operator may be a name")
	}
	return parse(tokens, true)
}

// named are what letters side by side may mean besides a product.
var named = []string{"ln", "log", "exp", "sin", "cos", "tan", "cot", "sec", "csc", "abs", "max", "min", "mod", "gcd", "lcm", "pi"}

// checkLetters refuses letters side by side that are hardly a product of variables:
// four of them or more are a word.
func checkLetters(letters string) error {
	if len(letters) > 3 {
		return errors.New("words are not an expression")
	}
	for _, name := range named {
		if strings.Contains(letters, name) {
			return fmt.Errorf("%s can be read in two ways", letters)
		}
	}
	if strings.Contains(letters, "i") {
		return errors.New("i may be the imaginary unit")
	}
	return nil
}

// withoutBlank knows \lnx, which is \ln x with its blanks taken out as answers
// are normalised: no command of LaTeX is called so. \sinh is another function.
func withoutBlank(name string) (token, bool) {
	last := max(0, len(name)-1)
	t, ok := commands[name[:last]]
	return t, ok && t.kind == 'f' && t.text != "frac" && t.text != "sqrt" && name[last:] != "h"
}

// operates reports whether something is done to two terms by a sign of its own.
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

// powerOfTen reports whether text, which follows a number, goes on as 1e9 does.
func powerOfTen(text string) bool {
	if text == "" || text[0] != 'e' && text[0] != 'E' {
		return false
	}
	text = strings.TrimLeft(text[1:], "+-")
	return text != "" && digit(text[0])
}

func digit(c byte) bool  { return c >= '0' && c <= '9' }
func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
