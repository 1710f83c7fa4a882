package mathexpr

import (
	"errors"
	"fmt"
	"regexp"
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
	for rest := text; rest != ""; {
		number, after := cut(rest, digits+".")
		switch {
		case strings.IndexByte(" \t\r\n\f\v", rest[0]) >= 0:
			after = rest[1:]
		case number != "":
			if number == "." || number[0] == '0' && !strings.Contains(number, ".") && strings.Trim(number, "0") != "" {
				return nil, fmt.Errorf("%q is not a number", number)
			}
			tokens = append(tokens, token{'n', number})
		case strings.HasPrefix(rest, "**"):
			tokens, after = append(tokens, token{'o', "^"}), rest[2:]
		case strings.HasPrefix(rest, "//"):
			tokens, after = append(tokens, token{'o', "//"}), rest[2:]
		case strings.IndexByte("+-*/()", rest[0]) >= 0:
			tokens, after = append(tokens, token{'o', rest[:1]}), rest[1:]
		default:
			return nil, fmt.Errorf("unexpected character %q", rest[0])
		}
		rest = after
	}
	return parse(tokens, false)
}

const (
	digits  = "0123456789"
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// cut splits text after its longest prefix of characters in set.
func cut(text, set string) (front, rest string) {
	rest = strings.TrimLeft(text, set)
	return text[:len(text)-len(rest)], rest
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
	joined := false // text has adjacent letters
	follows := func(kind byte) bool { return len(tokens) > 0 && tokens[len(tokens)-1].kind == kind }
	for rest := text; rest != ""; {
		number, after := cut(rest, digits+".")
		word, afterWord := cut(rest, letters)
		switch c := rest[0]; {
		case strings.IndexByte(" \t\r\n$", c) >= 0:
			after = rest[1:]
		case number != "":
			switch {
			case number == ".":
				return nil, errors.New("a point is not a number")
			case follows('n'):
				return nil, fmt.Errorf("%q follows a number", number)
			case powerOfTen.MatchString(after):
				return nil, fmt.Errorf("%s is ambiguous", rest)
			}
			tokens = append(tokens, token{'n', number})
		case c == '\\':
			t, n, err := command(rest[1:])
			if err != nil {
				return nil, err
			}
			if t.text == "frac" && follows('n') {
				return nil, errors.New("a number before a fraction is ambiguous")
			}
			if t.kind != 0 {
				tokens = append(tokens, t)
			}
			after = rest[1+n:]
		case word != "":
			if err := checkLetters(word); err != nil {
				return nil, err
			}
			joined = joined || len(word) > 1
			for _, name := range strings.Split(word, "") {
				if name == "e" {
					tokens = append(tokens, token{'c', name})
				} else {
					tokens = append(tokens, token{'v', name})
				}
			}
			after = afterWord
		case strings.IndexByte("+-*/^(){}[]|", c) >= 0:
			tokens, after = append(tokens, token{'o', rest[:1]}), rest[1:]
		default:
			return nil, fmt.Errorf("unexpected character %q", c)
		}
		rest = after
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

// command returns the token of the command at the front of text, which follows a
// backslash, and the length of its name.
func command(text string) (t token, n int, err error) {
	name, _ := cut(text, letters)
	if name == "" {
		name = text[:min(1, len(text))]
	}
	if t, ok := commands[name]; ok {
		return t, len(name), nil
	}
	// Normalised answers have no blanks: \lnx is \ln x, since LaTeX has no such
	// command. \sinh is a different function.
	last := max(0, len(name)-1)
	t = commands[name[:last]]
	if t.kind == 'f' && t.text != "frac" && t.text != "sqrt" && name[last:] != "h" {
		return t, last, nil
	}
	return token{}, 0, fmt.Errorf(`unknown command \%s`, name)
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

// powerOfTen matches the exponent of a number such as 1e9.
var powerOfTen = regexp.MustCompile(`^[eE][+-]*[0-9]`)
