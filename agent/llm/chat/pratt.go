package chat

import (
	"strconv"
)

// binding powers of the binary operators, as in Jinja: a higher one binds
// tighter. Comparisons chain and conditional expressions are not binary; they
// are handled between these.
const (
	bindOr = iota + 1
	bindAnd
	bindNot
	bindCompare
	bindAdd
	bindConcat
	bindMultiply
	bindPower
)

var binaryPower = map[string]int{
	"+": bindAdd, "-": bindAdd, "~": bindConcat,
	"*": bindMultiply, "/": bindMultiply, "//": bindMultiply, "%": bindMultiply, "**": bindPower,
}

var comparisons = map[string]bool{"==": true, "!=": true, "<": true, "<=": true, ">": true, ">=": true}

// tuple reads expressions separated by commas; one alone is no tuple.
func (p *parser) tuple() (expr, error) { return p.tupleOf(p.expression) }

// plainTuple is tuple without conditional expressions, for what a for loop
// runs over, where an if is the loop's filter.
func (p *parser) plainTuple() (expr, error) {
	return p.tupleOf(func() (expr, error) { return p.operators(bindOr) })
}

func (p *parser) tupleOf(item func() (expr, error)) (expr, error) {
	first, err := item()
	if err != nil || !p.isOp(",") {
		return first, err
	}
	out := &listExpr{items: []expr{first}, tuple: true}
	for p.skipOp(",") {
		if t := p.peek(); t.kind == tokVarClose || t.kind == tokTagClose || p.isOp(")") {
			break
		}
		x, err := item()
		if err != nil {
			return nil, err
		}
		out.items = append(out.items, x)
	}
	return out, nil
}

// expression reads an expression, inline ifs included.
func (p *parser) expression() (expr, error) {
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	x, err := p.operators(bindOr)
	if err != nil {
		return nil, err
	}
	for p.skipName("if") {
		c := &condExpr{then: x}
		if c.test, err = p.operators(bindOr); err != nil {
			return nil, err
		}
		if p.skipName("else") {
			if c.other, err = p.expression(); err != nil {
				return nil, err
			}
		}
		x = c
	}
	return x, nil
}

// operators reads an expression of operators that bind at least as tight as least.
func (p *parser) operators(least int) (expr, error) {
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	var left expr
	var err error
	if line := p.peek().line; least <= bindNot && p.skipName("not") {
		x, err := p.operators(bindNot)
		if err != nil {
			return nil, err
		}
		left = &unaryExpr{"not", x, line}
	} else if left, err = p.unary(true); err != nil {
		return nil, err
	}
	for {
		t := p.peek()
		power := 0
		switch {
		case p.isName("or"):
			power = bindOr
		case p.isName("and"):
			power = bindAnd
		case t.kind == tokOp && comparisons[t.text] || p.isName("in") || p.notIn():
			power = bindCompare
		case t.kind == tokOp:
			power = binaryPower[t.text]
		}
		if power == 0 || power < least {
			return left, nil
		}
		if power == bindCompare {
			if left, err = p.comparison(left); err != nil {
				return nil, err
			}
			continue
		}
		p.next()
		right, err := p.operators(power + 1)
		if err != nil {
			return nil, err
		}
		left = &binaryExpr{t.text, left, right, t.line}
	}
}

func (p *parser) notIn() bool {
	if !p.isName("not") {
		return false
	}
	t := p.tokens[min(p.pos+1, len(p.tokens)-1)]
	return t.kind == tokName && t.text == "in"
}

// comparison reads a chain a < b <= c.
func (p *parser) comparison(first expr) (expr, error) {
	c := &compareExpr{first: first, line: p.peek().line}
	for {
		t := p.peek()
		switch {
		case p.notIn():
			p.next()
			p.next()
			c.ops = append(c.ops, "not in")
		case t.kind == tokOp && comparisons[t.text] || p.isName("in"):
			p.next()
			c.ops = append(c.ops, t.text)
		default:
			return c, nil
		}
		x, err := p.operators(bindCompare + 1)
		if err != nil {
			return nil, err
		}
		c.rest = append(c.rest, x)
	}
}

// unary reads signs, a primary expression and what follows it. Filters bind
// looser than a sign: -1|abs is 1.
func (p *parser) unary(withFilters bool) (expr, error) {
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	t := p.peek()
	var x expr
	var err error
	if t.kind == tokOp && (t.text == "-" || t.text == "+") {
		p.next()
		if x, err = p.unary(false); err == nil {
			x = &unaryExpr{t.text, x, t.line}
		}
	} else {
		x, err = p.primary()
	}
	if err != nil {
		return nil, err
	}
	if x, err = p.postfix(x); err != nil || !withFilters {
		return x, err
	}
	return p.filters(x)
}

func (p *parser) primary() (expr, error) {
	t := p.next()
	switch t.kind {
	case tokName:
		switch t.text {
		case "true", "True":
			return &literalExpr{true}, nil
		case "false", "False":
			return &literalExpr{false}, nil
		case "none", "None":
			return &literalExpr{nil}, nil
		case "and", "or", "in", "is", "if", "else", "not":
			return nil, p.fail(t.line, "unexpected '%s'", t.text)
		}
		return &nameExpr{t.text, t.line}, nil
	case tokString:
		s := t.text
		for p.peek().kind == tokString {
			s += p.next().text
		}
		return &literalExpr{s}, nil
	case tokInt:
		i, err := strconv.ParseInt(t.text, 0, 64)
		return &literalExpr{i}, err
	case tokFloat:
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			return nil, p.fail(t.line, "bad number %s", t.text)
		}
		return &literalExpr{f}, nil
	case tokOp:
		switch t.text {
		case "(":
			if p.skipOp(")") {
				return &listExpr{tuple: true}, nil
			}
			x, err := p.tuple()
			if err != nil {
				return nil, err
			}
			return x, p.wantOp(")")
		case "[":
			return p.listLiteral()
		case "{":
			return p.dictLiteral()
		}
	}
	return nil, p.fail(t.line, "expected an expression, found %v", t)
}

func (p *parser) listLiteral() (expr, error) {
	out := new(listExpr)
	for !p.skipOp("]") {
		if len(out.items) > 0 {
			if err := p.wantOp(","); err != nil {
				return nil, err
			}
			if p.skipOp("]") {
				break
			}
		}
		x, err := p.expression()
		if err != nil {
			return nil, err
		}
		out.items = append(out.items, x)
	}
	return out, nil
}

func (p *parser) dictLiteral() (expr, error) {
	out := new(dictExpr)
	for !p.skipOp("}") {
		if len(out.keys) > 0 {
			if err := p.wantOp(","); err != nil {
				return nil, err
			}
			if p.skipOp("}") {
				break
			}
		}
		k, err := p.expression()
		if err != nil {
			return nil, err
		}
		if err := p.wantOp(":"); err != nil {
			return nil, err
		}
		v, err := p.expression()
		if err != nil {
			return nil, err
		}
		out.keys, out.values = append(out.keys, k), append(out.values, v)
	}
	return out, nil
}

// postfix reads attributes, subscripts and calls.
func (p *parser) postfix(x expr) (expr, error) {
	for {
		t := p.peek()
		var err error
		switch {
		case p.skipOp("."):
			attr := p.next()
			switch attr.kind {
			case tokName:
				x = &attrExpr{x, attr.text, t.line}
			case tokInt:
				i, err := strconv.ParseInt(attr.text, 0, 64)
				if err != nil {
					return nil, p.fail(t.line, "bad index %s", attr.text)
				}
				x = &itemExpr{x, &literalExpr{i}, t.line}
			default:
				return nil, p.fail(attr.line, "expected a name after '.', found %v", attr)
			}
		case p.skipOp("["):
			x, err = p.subscript(x, t.line)
		case p.isOp("("):
			x, err = p.call(x)
		default:
			return x, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *parser) subscript(x expr, line int) (expr, error) {
	var parts [3]expr
	n := 0
	for ; n < 3; n++ {
		if !p.isOp(":") && !p.isOp("]") {
			var err error
			if parts[n], err = p.expression(); err != nil {
				return nil, err
			}
		}
		if !p.skipOp(":") {
			break
		}
	}
	if err := p.wantOp("]"); err != nil {
		return nil, err
	}
	if n > 0 {
		return &sliceExpr{x, parts, line}, nil
	}
	if parts[0] == nil {
		return nil, p.fail(line, "an empty subscript")
	}
	return &itemExpr{x, parts[0], line}, nil
}

func (p *parser) call(x expr) (expr, error) {
	line := p.peek().line
	a, err := p.arguments()
	return &callExpr{x, a, line}, err
}

func (p *parser) arguments() (argList, error) {
	var a argList
	if err := p.wantOp("("); err != nil {
		return a, err
	}
	for n := 0; !p.skipOp(")"); n++ {
		if n > 0 {
			if err := p.wantOp(","); err != nil {
				return a, err
			}
			if p.skipOp(")") {
				break
			}
		}
		t := p.peek()
		if p.isOp("*") || p.isOp("**") {
			return a, p.fail(t.line, "'%s' in arguments is not supported", t.text)
		}
		if eq := p.tokens[min(p.pos+1, len(p.tokens)-1)]; t.kind == tokName && eq.kind == tokOp && eq.text == "=" {
			p.next()
			p.next()
			a.kw = append(a.kw, t.text)
			v, err := p.expression()
			if err != nil {
				return a, err
			}
			a.vals = append(a.vals, v)
			continue
		}
		if len(a.kw) > 0 {
			return a, p.fail(t.line, "an argument without a name after one with a name")
		}
		v, err := p.expression()
		if err != nil {
			return a, err
		}
		a.pos = append(a.pos, v)
	}
	return a, nil
}

// filters reads filters, tests and calls of their results.
func (p *parser) filters(x expr) (expr, error) {
	for {
		t := p.peek()
		var err error
		switch {
		case p.skipOp("|"):
			x, err = p.filter(x, t.line)
		case p.skipName("is"):
			x, err = p.test(x, t.line)
		case p.isOp("("):
			x, err = p.call(x)
		default:
			return x, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *parser) filter(x expr, line int) (expr, error) {
	name, err := p.name()
	if err != nil {
		return nil, err
	}
	out := &filterExpr{name: name, f: filters[name], x: x, line: line}
	if p.isOp("(") {
		out.args, err = p.arguments()
	}
	return out, err
}

func (p *parser) test(x expr, line int) (expr, error) {
	not := p.skipName("not")
	name, err := p.name()
	if err != nil {
		return nil, err
	}
	out := &testExpr{name: name, f: tests[name], x: x, not: not, line: line}
	t := p.peek()
	switch {
	case p.isOp("("):
		out.args, err = p.arguments()
	case t.kind == tokString, t.kind == tokInt, t.kind == tokFloat, p.isOp("["), p.isOp("{"),
		t.kind == tokName && t.text != "else" && t.text != "or" && t.text != "and" && t.text != "if" && t.text != "is" &&
			t.text != "in" && t.text != "not" && t.text != "recursive":
		arg, err := p.primary()
		if err == nil {
			arg, err = p.postfix(arg)
		}
		if err != nil {
			return nil, err
		}
		out.args.pos = []expr{arg}
	}
	return out, err
}
