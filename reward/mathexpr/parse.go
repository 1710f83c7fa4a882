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

// parser is a precedence-climbing (Pratt 1973) parser. After an error it has no
// more tokens.
type parser struct {
	tokens []token
	depth  int
	err    error // the first error
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
	n := p.expression(0)
	if t := p.peek(); t.kind != 0 {
		p.fail(fmt.Errorf("unexpected %q after an expression", t.text))
	}
	if p.err != nil {
		return nil, p.err
	}
	return n, nil
}

// fail records an error and returns a node that is not used.
func (p *parser) fail(err error) *Node {
	if p.err == nil {
		p.err = err
	}
	p.tokens = nil
	return &Node{}
}

func (p *parser) peek() token {
	if len(p.tokens) > 0 {
		return p.tokens[0]
	}
	return token{}
}

func (p *parser) next() token {
	t := p.peek()
	p.tokens = p.tokens[min(1, len(p.tokens)):]
	return t
}

// operator consumes the next token if it is the operator or bracket op.
func (p *parser) operator(op string) bool {
	if p.peek() != (token{'o', op}) {
		return false
	}
	p.next()
	return true
}

// nested calls the function parse one nesting level deeper.
func (p *parser) nested(parse func() *Node) *Node {
	if p.depth++; p.depth > maxDepth {
		return p.fail(errTooDeep)
	}
	defer func() { p.depth-- }()
	return parse()
}

func (p *parser) expression(least int) *Node {
	return p.nested(func() *Node {
		left := p.operand()
		for {
			t := p.peek()
			power, op := binding[t.text], t.text
			isOperator := power > 0 && t.kind == 'o'
			if !isOperator {
				if !p.juxtaposed || !p.begins(t) {
					return left
				}
				power, op = product, "*"
			}
			if power <= least {
				return left
			}
			if isOperator {
				p.next()
			}
			if op == "^" { // right-associative: 2^3^2 is 2^9
				power--
			}
			left = &Node{op: op, args: []*Node{left, p.expression(power)}}
		}
	})
}

// begins reports whether t can start a term that follows another without an operator.
func (p *parser) begins(t token) bool {
	return t.kind == 'n' || t.kind == 'v' || t.kind == 'c' || t.kind == 'f' || t.kind == 'o' && (t.text == "(" || t.text == "{")
}

var closing = map[string]string{"(": ")", "{": "}", "[": "]"}

func (p *parser) operand() *Node {
	switch t := p.next(); t.kind {
	case 'n':
		x, ok := new(big.Rat).SetString(t.text)
		if !ok || strings.Count(t.text, ".") > 1 {
			return p.fail(fmt.Errorf("%q is not a number", t.text))
		}
		return &Node{op: "num", num: x}
	case 'v':
		return &Node{op: "var", name: t.text}
	case 'c':
		return &Node{op: "const", name: t.text}
	case 'f':
		return p.function(t.text)
	case 'o':
		switch t.text {
		case "+":
			return p.expression(sign)
		case "-":
			return &Node{op: "neg", args: []*Node{p.expression(sign)}}
		case "(", "{":
			return p.until(closing[t.text])
		case "|":
			return &Node{op: "abs", args: []*Node{p.until("|")}}
		}
		return p.fail(fmt.Errorf("expected a number or a name, got %q", t.text))
	}
	return p.fail(errors.New("unexpected end of the expression"))
}

func (p *parser) until(end string) *Node {
	n := p.expression(0)
	if !p.operator(end) {
		return p.fail(fmt.Errorf("expected %q", end))
	}
	return n
}

// function parses the arguments of a LaTeX command.
func (p *parser) function(name string) *Node {
	switch name {
	case "frac":
		x := p.argument()
		return &Node{op: "/", args: []*Node{x, p.argument()}}
	case "sqrt":
		if p.operator("[") {
			degree := p.until("]")
			return &Node{op: "root", args: []*Node{p.argument(), degree}}
		}
		return &Node{op: "sqrt", args: []*Node{p.argument()}}
	}
	// \sin^2 x is (\sin x)^2, \sin 2x is \sin(2x).
	var exponent *Node
	if p.operator("^") {
		exponent = p.argument()
		if x, ok := exponent.Rat(); !ok || x.Sign() < 0 { // \sin^{-1} is ambiguous
			return p.fail(fmt.Errorf("%s with such an exponent is ambiguous", name))
		}
	}
	n := &Node{op: name}
	if t := p.peek(); t.kind == 'o' && (t.text == "(" || t.text == "{") {
		n.args = []*Node{p.argument()}
	} else {
		n.args = []*Node{p.expression(product - 1)}
	}
	if exponent != nil {
		return &Node{op: "^", args: []*Node{n, exponent}}
	}
	return n
}

// argument parses a group, or a single number or name.
func (p *parser) argument() *Node { return p.nested(p.operand) }
