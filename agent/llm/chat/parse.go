package chat

import (
	"fmt"
	"slices"
)

// parser is a recursive-descent parser; expressions are in pratt.go.
type parser struct {
	tokens []token
	pos    int
	depth  int
	loops  int // for loops around the current position
}

// maxSyntax bounds the parser's recursion; a pair of parentheses takes three.
const maxSyntax = 4 * maxDepth

func (p *parser) peek() token { return p.tokens[p.pos] }

func (p *parser) next() token {
	t := p.tokens[p.pos]
	if t.kind != tokEOF {
		p.pos++
	}
	return t
}

func (p *parser) fail(line int, format string, args ...any) error {
	return &Error{line, fmt.Sprintf(format, args...)}
}

// deeper guards against syntax nested without bound.
func (p *parser) deeper() error {
	if p.depth++; p.depth > maxSyntax {
		return &Error{p.peek().line, "blocks or expressions are nested too deep"}
	}
	return nil
}

func (p *parser) isOp(op string) bool {
	t := p.peek()
	return t.kind == tokOp && t.text == op
}

func (p *parser) isName(name string) bool {
	t := p.peek()
	return t.kind == tokName && t.text == name
}

// skipOp and skipName take the next token if it is the one asked for.
func (p *parser) skipOp(op string) bool {
	if p.isOp(op) {
		p.pos++
		return true
	}
	return false
}

func (p *parser) skipName(name string) bool {
	if p.isName(name) {
		p.pos++
		return true
	}
	return false
}

func (p *parser) wantOp(op string) error {
	if !p.skipOp(op) {
		return p.fail(p.peek().line, "expected '%s', found %v", op, p.peek())
	}
	return nil
}

func (p *parser) name() (string, error) {
	t := p.next()
	if t.kind != tokName {
		return "", p.fail(t.line, "expected a name, found %v", t)
	}
	return t.text, nil
}

func (p *parser) closeTag() error {
	if t := p.next(); t.kind != tokTagClose {
		return p.fail(t.line, "expected the end of the tag, found %v", t)
	}
	return nil
}

func (p *parser) template() ([]stmt, error) {
	body, _, err := p.body(0)
	return body, err
}

// body reads statements up to one of the tags named ends, and that tag's
// name. Without ends it reads to the end of the template.
func (p *parser) body(line int, ends ...string) (body []stmt, end string, err error) {
	if err := p.deeper(); err != nil {
		return nil, "", err
	}
	defer func() { p.depth-- }()
	for {
		t := p.next()
		switch t.kind {
		case tokEOF:
			if len(ends) > 0 {
				return nil, "", p.fail(line, "the block opened here has no '%s'", ends[len(ends)-1])
			}
			return body, "", nil
		case tokText:
			body = append(body, &textStmt{t.text})
		case tokVarOpen:
			x, err := p.tuple()
			if err != nil {
				return nil, "", err
			}
			if c := p.next(); c.kind != tokVarClose {
				return nil, "", p.fail(c.line, "expected '}}', found %v", c)
			}
			body = append(body, &printStmt{x, t.line})
		default:
			name, err := p.name()
			if err != nil {
				return nil, "", err
			}
			if slices.Contains(ends, name) {
				return body, name, nil
			}
			s, err := p.tag(name, t.line)
			if err != nil {
				return nil, "", err
			}
			body = append(body, s)
		}
	}
}

func (p *parser) tag(name string, line int) (stmt, error) {
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
		return p.filterTag(line)
	case "generation":
		if err := p.closeTag(); err != nil {
			return nil, err
		}
		body, _, err := p.body(line, "endgeneration")
		if err != nil {
			return nil, err
		}
		return &blockStmt{body}, p.closeTag()
	case "break", "continue":
		if p.loops == 0 {
			return nil, p.fail(line, "'%s' outside of a for loop", name)
		}
		err := errBreak
		if name == "continue" {
			err = errContinue
		}
		return &jumpStmt{err}, p.closeTag()
	}
	return nil, p.fail(line, "tag '%s' is not supported here", name)
}

func (p *parser) ifTag(line int) (stmt, error) {
	s := new(ifStmt)
	for end := "elif"; end == "elif"; {
		test, err := p.tuple()
		if err != nil {
			return nil, err
		}
		if err := p.closeTag(); err != nil {
			return nil, err
		}
		var body []stmt
		if body, end, err = p.body(line, "elif", "else", "endif"); err != nil {
			return nil, err
		}
		s.tests, s.bodies = append(s.tests, test), append(s.bodies, body)
		if end == "else" {
			if err := p.closeTag(); err != nil {
				return nil, err
			}
			if s.other, _, err = p.body(line, "endif"); err != nil {
				return nil, err
			}
		}
	}
	return s, p.closeTag()
}

func (p *parser) forTag(line int) (stmt, error) {
	s := &forStmt{line: line}
	paren := p.skipOp("(")
	for {
		name, err := p.variable()
		if err != nil {
			return nil, err
		}
		s.targets = append(s.targets, name)
		if !p.skipOp(",") {
			break
		}
	}
	if paren {
		if err := p.wantOp(")"); err != nil {
			return nil, err
		}
	}
	if !p.skipName("in") {
		return nil, p.fail(line, "expected 'in' in a for tag, found %v", p.peek())
	}
	var err error
	if s.iter, err = p.plainTuple(); err != nil {
		return nil, err
	}
	if p.skipName("if") {
		if s.cond, err = p.expression(); err != nil {
			return nil, err
		}
	}
	if p.isName("recursive") {
		return nil, p.fail(line, "recursive loops are not supported")
	}
	if err := p.closeTag(); err != nil {
		return nil, err
	}
	p.loops++
	body, end, err := p.body(line, "else", "endfor")
	p.loops--
	if err != nil {
		return nil, err
	}
	s.body = body
	if end == "else" {
		if err := p.closeTag(); err != nil {
			return nil, err
		}
		if s.other, _, err = p.body(line, "endfor"); err != nil {
			return nil, err
		}
	}
	return s, p.closeTag()
}

var reserved = []string{"true", "false", "none", "True", "False", "None", "and", "or", "not", "in", "is", "if", "else"}

// variable reads a name that can be assigned to.
func (p *parser) variable() (string, error) {
	line := p.peek().line
	name, err := p.name()
	if err == nil && slices.Contains(reserved, name) {
		err = p.fail(line, "'%s' cannot be assigned to", name)
	}
	return name, err
}

func (p *parser) setTag(line int) (stmt, error) {
	var targets []target
	paren := p.skipOp("(")
	for {
		var t target
		var err error
		if t.name, err = p.variable(); err != nil {
			return nil, err
		}
		if p.skipOp(".") {
			if t.attr, err = p.name(); err != nil {
				return nil, err
			}
		}
		targets = append(targets, t)
		if !p.skipOp(",") {
			break
		}
	}
	if paren {
		if err := p.wantOp(")"); err != nil {
			return nil, err
		}
	}
	if p.skipOp("=") {
		value, err := p.tuple()
		if err != nil {
			return nil, err
		}
		return &setStmt{targets, value, line}, p.closeTag()
	}
	if len(targets) != 1 {
		return nil, p.fail(line, "expected '=' in a set tag, found %v", p.peek())
	}
	s := &setBlockStmt{target: targets[0], line: line}
	if p.isOp("|") {
		var err error
		if s.value, err = p.filters(&nameExpr{blockText, line}); err != nil {
			return nil, err
		}
	}
	if err := p.closeTag(); err != nil {
		return nil, err
	}
	var err error
	if s.body, _, err = p.body(line, "endset"); err != nil {
		return nil, err
	}
	return s, p.closeTag()
}

func (p *parser) filterTag(line int) (stmt, error) {
	s := &filterStmt{line: line}
	x, err := p.filter(&nameExpr{blockText, line}, line)
	if err != nil {
		return nil, err
	}
	if s.value, err = p.filters(x); err != nil {
		return nil, err
	}
	if err := p.closeTag(); err != nil {
		return nil, err
	}
	if s.body, _, err = p.body(line, "endfilter"); err != nil {
		return nil, err
	}
	return s, p.closeTag()
}

func (p *parser) macroTag(line int) (stmt, error) {
	s := &macroStmt{line: line}
	var err error
	if s.name, err = p.variable(); err != nil {
		return nil, err
	}
	if err := p.wantOp("("); err != nil {
		return nil, err
	}
	for !p.skipOp(")") {
		if len(s.params) > 0 {
			if err := p.wantOp(","); err != nil {
				return nil, err
			}
		}
		param, err := p.variable()
		if err != nil {
			return nil, err
		}
		s.params = append(s.params, param)
		if p.skipOp("=") {
			def, err := p.expression()
			if err != nil {
				return nil, err
			}
			s.defaults = append(s.defaults, def)
		} else if len(s.defaults) > 0 {
			return nil, p.fail(line, "parameter '%s' without a default after one with a default", param)
		}
	}
	if err := p.closeTag(); err != nil {
		return nil, err
	}
	loops := p.loops
	p.loops = 0
	s.body, _, err = p.body(line, "endmacro")
	p.loops = loops
	if err != nil {
		return nil, err
	}
	return s, p.closeTag()
}
