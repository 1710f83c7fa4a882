package chat

import (
	"fmt"
	"slices"
)

// stmt is a compiled statement: it writes output or sets variables.
type stmt func(c *context)

// expr is a compiled expression. An expression that can fail sets the context's
// line after it evaluates its operands and before it computes its value.
type expr func(c *context) any

// parser compiles tags to statements by recursive descent. parseexpr.go compiles
// expressions.
type parser struct {
	tokens []token
	pos    int
	depth  int
	loops  int // number of for loops around the current position
}

// maxSyntax bounds the parser's recursion; a pair of parentheses takes
// three levels.
const maxSyntax = 4 * maxDepth

// peek returns the next token, and ahead returns the token after it.
func (p *parser) peek() token  { return p.tokens[p.pos] }
func (p *parser) ahead() token { return p.tokens[min(p.pos+1, len(p.tokens)-1)] }

func (p *parser) next() token {
	t := p.peek()
	if t.kind != tokEOF {
		p.pos++
	}
	return t
}

func (p *parser) errorf(line int, format string, args ...any) *Error {
	return &Error{line, fmt.Sprintf(format, args...)}
}

// enter adds a level of syntax and panics above maxSyntax; leave removes the level.
func (p *parser) enter() {
	if p.depth++; p.depth > maxSyntax {
		panic(p.errorf(p.peek().line, "blocks or expressions are nested too deep"))
	}
}

func (p *parser) leave() { p.depth-- }

// skip takes the next token if cond is true.
func (p *parser) skip(cond bool) bool {
	if cond {
		p.pos++
	}
	return cond
}

func (p *parser) skipOp(op string) bool     { return p.skip(p.peek().isOp(op)) }
func (p *parser) skipName(name string) bool { return p.skip(p.peek().isName(name)) }

func (p *parser) wantOp(op string) {
	if !p.skipOp(op) {
		panic(p.errorf(p.peek().line, "expected '%s', found %v", op, p.peek()))
	}
}

func (p *parser) closeTag() { p.wantOp("%}") }

func (p *parser) name() string {
	t := p.next()
	if t.kind != tokName {
		panic(p.errorf(t.line, "expected a name, found %v", t))
	}
	return t.text
}

// body compiles statements up to a tag whose name is in ends, and returns that
// name. If ends is empty, body reads to the end of the template.
func (p *parser) body(line int, ends ...string) (s stmt, end string) {
	p.enter()
	defer p.leave()
	var body []stmt
	for {
		t := p.next()
		switch {
		case t.kind == tokEOF:
			if len(ends) > 0 {
				panic(p.errorf(line, "the block opened here has no '%s'", ends[len(ends)-1]))
			}
			return sequence(body), ""
		case t.kind == tokText:
			body = append(body, func(c *context) { c.write(t.text) })
		case t.isOp("{{"):
			x := p.tuple()
			p.wantOp("}}")
			body = append(body, func(c *context) { c.write(c.str(c.eval(x, t.line))) })
		default:
			name := p.name()
			if slices.Contains(ends, name) {
				return sequence(body), name
			}
			body = append(body, p.tag(name, t.line))
		}
	}
}

// sequence returns the statement that runs body up to a break or continue.
func sequence(body []stmt) stmt {
	return func(c *context) {
		for _, s := range body {
			c.spend(0)
			if s(c); c.jump != noJump {
				return
			}
		}
	}
}

// block compiles the rest of a tag, the statements after the tag, and the
// closing tag. The argument end is the name of the closing tag.
func (p *parser) block(line int, end string) stmt {
	p.closeTag()
	body, _ := p.body(line, end)
	p.closeTag()
	return body
}

// elseBlock compiles an optional else block. The argument end is the name of the tag just read, "else" if there is a block; last is the name of the closing tag.
func (p *parser) elseBlock(line int, end, last string) stmt {
	if end == "else" {
		return p.block(line, last)
	}
	p.closeTag()
	return sequence(nil)
}

func (p *parser) tag(name string, line int) stmt {
	switch name {
	case "if":
		return p.ifTag(line)
	case "for":
		return p.forTag(line)
	case "set":
		return p.setTag(line)
	case "macro":
		return p.macroTag(line)
	case "filter":
		filters := p.filters(p.filter(blockText, line))
		text := captured(p.block(line, "endfilter"), filters)
		return func(c *context) {
			v := text(c)
			if c.jump != noJump {
				return
			}
			c.line = line
			s, ok := textOf(v)
			if !ok {
				panic(c.errorf("the result of a filter block is a %s, not a string", typeName(v)))
			}
			c.write(s)
		}
	case "generation": // a generation block runs in a new scope
		body := p.block(line, "endgeneration")
		return func(c *context) { c.inside(c.scope, func() { body(c) }) }
	case "break", "continue":
		if p.loops == 0 {
			panic(p.errorf(line, "'%s' outside of a for loop", name))
		}
		p.closeTag()
		to := map[string]jump{"break": breakLoop, "continue": continueLoop}[name]
		return func(c *context) { c.jump = to }
	}
	panic(p.errorf(line, "tag '%s' is not supported here", name))
}

func (p *parser) ifTag(line int) stmt {
	test := p.tuple()
	p.closeTag()
	body, end := p.body(line, "elif", "else", "endif")
	var other stmt
	if end == "elif" {
		other = p.ifTag(line)
	} else {
		other = p.elseBlock(line, end, "endif")
	}
	return func(c *context) {
		if truth(test(c)) {
			body(c)
		} else {
			other(c)
		}
	}
}

func (p *parser) forTag(line int) stmt {
	targets := p.targets(false)
	if !p.skipName("in") {
		panic(p.errorf(line, "expected 'in' in a for tag, found %v", p.peek()))
	}
	// In a for tag, an if is the filter of the loop, not a conditional expression.
	items := p.tupleOf(func() expr { return p.operators(bindOr) })
	f := &forLoop{line: line, targets: targets, items: items}
	if p.skipName("if") {
		f.cond = p.expression()
	}
	if p.peek().isName("recursive") {
		panic(p.errorf(line, "recursive loops are not supported"))
	}
	p.closeTag()
	p.loops++
	body, end := p.body(line, "else", "endfor")
	p.loops--
	f.body, f.other = body, p.elseBlock(line, end, "endfor")
	return f.run
}

// variable reads a name that can be assigned to.
func (p *parser) variable() string {
	line := p.peek().line
	name := p.name()
	if _, constant := constants[name]; constant || slices.Contains(keywords, name) {
		panic(p.errorf(line, "'%s' cannot be assigned to", name))
	}
	return name
}

// target is the left side of an assignment: a name, or an attribute of a namespace.
type target struct{ name, attr string }

// targets reads the variables on the left of an assignment, with or without
// parentheses. Attributes such as ns.x are allowed if the argument is true.
func (p *parser) targets(attributes bool) (out []target) {
	paren := p.skipOp("(")
	for len(out) == 0 || p.skipOp(",") {
		t := target{name: p.variable()}
		if attributes && p.skipOp(".") {
			t.attr = p.name()
		}
		out = append(out, t)
	}
	if paren {
		p.wantOp(")")
	}
	return out
}

func (p *parser) setTag(line int) stmt {
	targets := p.targets(true)
	var value expr
	switch {
	case p.skipOp("="):
		value = p.tuple()
		p.closeTag()
	case len(targets) != 1:
		panic(p.errorf(line, "expected '=' in a set tag, found %v", p.peek()))
	default:
		filters := expr(blockText)
		if p.peek().isOp("|") {
			filters = p.filters(filters)
		}
		value = captured(p.block(line, "endset"), filters)
	}
	return func(c *context) {
		if v := c.eval(value, line); c.jump == noJump {
			c.unpack(targets, v)
		}
	}
}

func (p *parser) macroTag(line int) stmt {
	m := &macro{name: p.variable()}
	p.wantOp("(")
	for !p.skipOp(")") {
		if len(m.params) > 0 {
			p.wantOp(",")
		}
		param := p.variable()
		m.params = append(m.params, param)
		if p.skipOp("=") {
			m.defaults = append(m.defaults, p.expression())
		} else if len(m.defaults) > 0 {
			panic(p.errorf(line, "parameter '%s' without a default after one with a default", param))
		}
	}
	loops := p.loops
	p.loops = 0
	m.body = p.block(line, "endmacro")
	p.loops = loops
	return m.define
}
