package mathexpr

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// Bounds of the text and its nesting.
const (
	maxText  = 1000
	maxDepth = 60
)

var errTooDeep = errors.New("the expression is nested too deep")

// token is a number, a name, an operator or a bracket.
type token struct {
	kind byte   // 'n' number, 'v' variable, 'c' constant, 'f' function, 'o' operator or bracket, 0 end
	text string // operators have one name: ^ for **, * for \cdot
}

// parser is a precedence-climbing (Pratt 1973) parser.
type parser struct {
	tokens []token
	pos    int
	depth  int
	// juxtaposed makes adjacent terms a product.
	juxtaposed bool
}

// The binding powers. A sign binds weaker than a power and stronger than a
// product: -2^2 is -4, and 2^-1 a half.
var binding = map[string]int{"+": 10, "-": 10, "*": 20, "/": 20, "//": 20, "^": 30}

const (
	product = 20
	sign    = 25
)

func parse(tokens []token, juxtaposed bool) (*Node, error) {
	p := &parser{tokens: tokens, juxtaposed: juxtaposed}
	n, err := p.expression(0)
	if err == nil && p.peek().kind != 0 {
		err = fmt.Errorf("unexpected %q after an expression", p.peek().text)
	}
	if err != nil {
		return nil, err
	}
	return n, nil
}

func (p *parser) peek() token {
	if p.pos < len(p.tokens) {
		return p.tokens[p.pos]
	}
	return token{}
}

func (p *parser) next() token {
	t := p.peek()
	p.pos++
	return t
}

func (p *parser) expression(least int) (*Node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, errTooDeep
	}
	defer func() { p.depth-- }()
	left, err := p.operand()
	if err != nil {
		return nil, err
	}
	for {
		t := p.peek()
		power, isOperator := binding[t.text]
		isOperator = isOperator && t.kind == 'o'
		op := t.text
		if !isOperator {
			if !p.juxtaposed || !p.begins(t) {
				return left, nil
			}
			power, op = product, "*"
		}
		if power <= least {
			return left, nil
		}
		if isOperator {
			p.next()
		}
		if op == "^" { // right-associative: 2^3^2 is 2^9
			power--
		}
		right, err := p.expression(power)
		if err != nil {
			return nil, err
		}
		left = &Node{op: op, args: []*Node{left, right}}
	}
}

// begins reports whether t can start a term that follows another without an operator.
func (p *parser) begins(t token) bool {
	return t.kind == 'n' || t.kind == 'v' || t.kind == 'c' || t.kind == 'f' || t.kind == 'o' && (t.text == "(" || t.text == "{")
}

var closing = map[string]string{"(": ")", "{": "}", "[": "]"}

func (p *parser) operand() (*Node, error) {
	switch t := p.next(); t.kind {
	case 'n':
		return number(t.text)
	case 'v':
		return &Node{op: "var", name: t.text}, nil
	case 'c':
		return &Node{op: "const", name: t.text}, nil
	case 'f':
		return p.function(t.text)
	case 'o':
		switch t.text {
		case "-", "+":
			x, err := p.expression(sign)
			if err != nil || t.text == "+" {
				return x, err
			}
			return &Node{op: "neg", args: []*Node{x}}, nil
		case "(", "{":
			return p.until(closing[t.text])
		case "|":
			x, err := p.until("|")
			if err != nil {
				return nil, err
			}
			return &Node{op: "abs", args: []*Node{x}}, nil
		}
		return nil, fmt.Errorf("expected a number or a name, got %q", t.text)
	}
	return nil, errors.New("unexpected end of the expression")
}

func (p *parser) until(end string) (*Node, error) {
	n, err := p.expression(0)
	if err != nil {
		return nil, err
	}
	if t := p.next(); t.kind != 'o' || t.text != end {
		return nil, fmt.Errorf("expected %q", end)
	}
	return n, nil
}

// function parses the arguments of a LaTeX command.
func (p *parser) function(name string) (*Node, error) {
	switch name {
	case "frac":
		x, err := p.argument()
		if err != nil {
			return nil, err
		}
		y, err := p.argument()
		if err != nil {
			return nil, err
		}
		return &Node{op: "/", args: []*Node{x, y}}, nil
	case "sqrt":
		if t := p.peek(); t.kind == 'o' && t.text == "[" {
			p.next()
			degree, err := p.until("]")
			if err != nil {
				return nil, err
			}
			x, err := p.argument()
			if err != nil {
				return nil, err
			}
			return &Node{op: "root", args: []*Node{x, degree}}, nil
		}
		x, err := p.argument()
		if err != nil {
			return nil, err
		}
		return &Node{op: "sqrt", args: []*Node{x}}, nil
	}
	// \sin^2 x is (\sin x)^2, \sin 2x is \sin(2x).
	var exponent *Node
	if t := p.peek(); t.kind == 'o' && t.text == "^" {
		p.next()
		var err error
		if exponent, err = p.argument(); err != nil {
			return nil, err
		}
		if x, ok := exponent.Rat(); !ok || x.Sign() < 0 { // \sin^{-1} is ambiguous
			return nil, fmt.Errorf("%s with such an exponent is ambiguous", name)
		}
	}
	var x *Node
	var err error
	if t := p.peek(); t.kind == 'o' && (t.text == "(" || t.text == "{") {
		x, err = p.argument()
	} else {
		x, err = p.expression(product - 1)
	}
	if err != nil {
		return nil, err
	}
	n := &Node{op: name, args: []*Node{x}}
	if exponent != nil {
		n = &Node{op: "^", args: []*Node{n, exponent}}
	}
	return n, nil
}

// argument parses a group, or a single number or name.
func (p *parser) argument() (*Node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, errTooDeep
	}
	defer func() { p.depth-- }()
	return p.operand()
}

func number(text string) (*Node, error) {
	x, ok := new(big.Rat).SetString(text)
	if !ok || strings.Count(text, ".") > 1 {
		return nil, fmt.Errorf("%q is not a number", text)
	}
	return &Node{op: "num", num: x}, nil
}
