package chat

import (
	"fmt"
	"slices"
)

// parser is a recursive-descent parser of tags; parseexpr.go parses expressions.
type parser struct {
	tokens []token
	pos    int
	depth  int
	loops  int // for loops around the current position
}

// maxSyntax bounds the parser's recursion; a pair of parentheses takes three.
const maxSyntax = 4 * maxDepth

// peek returns the next token, ahead returns the one after it.
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

// enter bounds the depth of the syntax; leave undoes it.
func (p *parser) enter() {
	if p.depth++; p.depth > maxSyntax {
		panic(p.errorf(p.peek().line, "blocks or expressions are nested too deep"))
	}
}

func (p *parser) leave() { p.depth-- }

// skip takes the next token if it satisfies is.
func (p *parser) skip(is bool) bool {
	if is {
		p.pos++
	}
	return is
}

func (p *parser) skipOp(op string) bool     { return p.skip(p.peek().isOp(op)) }
func (p *parser) skipName(name string) bool { return p.skip(p.peek().isName(name)) }

func (p *parser) wantOp(op string) {
	if !p.skipOp(op) {
		panic(p.errorf(p.peek().line, "expected '%s', found %v", op, p.peek()))
	}
}

func (p *parser) want(k kind, what string) token {
	t := p.next()
	if t.kind != k {
		panic(p.errorf(t.line, "expected %s, found %v", what, t))
	}
	return t
}

func (p *parser) name() string { return p.want(tokName, "a name").text }
func (p *parser) closeTag()    { p.want(tokTagClose, "the end of the tag") }

// body reads statements up to one of the tags named ends, and that tag's
// name. Without ends it reads to the end of the template.
func (p *parser) body(line int, ends ...string) (body []stmt, end string) {
	p.enter()
	defer p.leave()
	for {
		t := p.next()
		switch t.kind {
		case tokEOF:
			if len(ends) > 0 {
				panic(p.errorf(line, "the block opened here has no '%s'", ends[len(ends)-1]))
			}
			return body, ""
		case tokText:
			body = append(body, &textStmt{t.text})
		case tokVarOpen:
			x := p.tuple()
			p.want(tokVarClose, "'}}'")
			body = append(body, &printStmt{x, t.line})
		default:
			name := p.name()
			if slices.Contains(ends, name) {
				return body, name
			}
			body = append(body, p.tag(name, t.line))
		}
	}
}

// block reads the rest of a tag, the statements up to the tag named end, and
// that tag.
func (p *parser) block(line int, end string) []stmt {
	p.closeTag()
	body, _ := p.body(line, end)
	p.closeTag()
	return body
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
		filters := p.filters(p.filter(&nameExpr{blockText, line}, line))
		return &filterStmt{p.block(line, "endfilter"), filters, line}
	case "generation":
		return &scopeStmt{p.block(line, "endgeneration")}
	case "break", "continue":
		if p.loops == 0 {
			panic(p.errorf(line, "'%s' outside of a for loop", name))
		}
		p.closeTag()
		if name == "break" {
			return &jumpStmt{breakLoop}
		}
		return &jumpStmt{continueLoop}
	}
	panic(p.errorf(line, "tag '%s' is not supported here", name))
}

func (p *parser) ifTag(line int) stmt {
	s := new(ifStmt)
	end := "elif"
	for end == "elif" {
		test := p.tuple()
		p.closeTag()
		var body []stmt
		body, end = p.body(line, "elif", "else", "endif")
		s.tests, s.bodies = append(s.tests, test), append(s.bodies, body)
	}
	if end == "else" {
		s.other = p.block(line, "endif")
	} else {
		p.closeTag()
	}
	return s
}

func (p *parser) forTag(line int) stmt {
	s := &forStmt{line: line, targets: p.targets(false)}
	if !p.skipName("in") {
		panic(p.errorf(line, "expected 'in' in a for tag, found %v", p.peek()))
	}
	s.iter = p.plainTuple()
	if p.skipName("if") {
		s.cond = p.expression()
	}
	if p.peek().isName("recursive") {
		panic(p.errorf(line, "recursive loops are not supported"))
	}
	p.closeTag()
	p.loops++
	var end string
	s.body, end = p.body(line, "else", "endfor")
	p.loops--
	if end == "else" {
		s.other = p.block(line, "endfor")
	} else {
		p.closeTag()
	}
	return s
}

var reserved = []string{"true", "false", "none", "True", "False", "None", "and", "or", "not", "in", "is", "if", "else"}

// variable reads a name that can be assigned to.
func (p *parser) variable() string {
	line := p.peek().line
	name := p.name()
	if slices.Contains(reserved, name) {
		panic(p.errorf(line, "'%s' cannot be assigned to", name))
	}
	return name
}

// targets reads the variables on the left of an assignment, with or without
// parentheses. attributes allows those of namespaces.
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
	if p.skipOp("=") {
		value := p.tuple()
		p.closeTag()
		return &setStmt{targets, value, line}
	}
	if len(targets) != 1 {
		panic(p.errorf(line, "expected '=' in a set tag, found %v", p.peek()))
	}
	s := &setBlockStmt{targets: targets, line: line}
	if p.peek().isOp("|") {
		s.filters = p.filters(&nameExpr{blockText, line})
	}
	s.body = p.block(line, "endset")
	return s
}

func (p *parser) macroTag(line int) stmt {
	s := &macroStmt{name: p.variable()}
	p.wantOp("(")
	for !p.skipOp(")") {
		if len(s.params) > 0 {
			p.wantOp(",")
		}
		param := p.variable()
		s.params = append(s.params, param)
		if p.skipOp("=") {
			s.defaults = append(s.defaults, p.expression())
		} else if len(s.defaults) > 0 {
			panic(p.errorf(line, "parameter '%s' without a default after one with a default", param))
		}
	}
	loops := p.loops
	p.loops = 0
	s.body = p.block(line, "endmacro")
	p.loops = loops
	return s
}
