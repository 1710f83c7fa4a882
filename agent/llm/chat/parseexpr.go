package chat

import "strconv"

// Binding powers of the binary operators, as in Jinja: a higher one binds
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

var bindingPower = map[string]int{
	"==": bindCompare, "!=": bindCompare, "<": bindCompare, "<=": bindCompare, ">": bindCompare, ">=": bindCompare,
	"+": bindAdd, "-": bindAdd, "~": bindConcat,
	"*": bindMultiply, "/": bindMultiply, "//": bindMultiply, "%": bindMultiply, "**": bindPower,
}

// power returns how tight the operator that comes next binds, 0 for any other token.
func (p *parser) power() int {
	t := p.peek()
	switch {
	case t.kind == tokOp:
		return bindingPower[t.text]
	case t.isName("or"):
		return bindOr
	case t.isName("and"):
		return bindAnd
	case t.isName("in"), t.isName("not") && p.ahead().isName("in"):
		return bindCompare
	}
	return 0
}

// tuple reads expressions separated by commas; a single one is no tuple.
func (p *parser) tuple() expr { return p.tupleOf(p.expression) }

// plainTuple is tuple without conditional expressions, for the sequence of a
// for loop, where an if is the loop's filter.
func (p *parser) plainTuple() expr {
	return p.tupleOf(func() expr { return p.operators(bindOr) })
}

func (p *parser) tupleOf(item func() expr) expr {
	first := item()
	if !p.peek().isOp(",") {
		return first
	}
	out := &listExpr{items: []expr{first}, tuple: true}
	for p.skipOp(",") {
		if t := p.peek(); t.kind == tokVarClose || t.kind == tokTagClose || t.isOp(")") {
			break
		}
		out.items = append(out.items, item())
	}
	return out
}

// expression reads an expression, inline ifs included.
func (p *parser) expression() expr {
	p.enter()
	defer p.leave()
	x := p.operators(bindOr)
	for p.skipName("if") {
		c := &condExpr{then: x, test: p.operators(bindOr)}
		if p.skipName("else") {
			c.other = p.expression()
		}
		x = c
	}
	return x
}

// operators reads an expression of operators that bind at least as tight as least.
func (p *parser) operators(least int) expr {
	p.enter()
	defer p.leave()
	var left expr
	if line := p.peek().line; least <= bindNot && p.skipName("not") {
		left = &unaryExpr{"not", p.operators(bindNot), line}
	} else {
		left = p.unary(true)
	}
	for {
		power := p.power()
		switch {
		case power == 0 || power < least:
			return left
		case power == bindCompare:
			left = p.comparison(left)
		default:
			t := p.next()
			left = &binaryExpr{t.text, left, p.operators(power + 1), t.line}
		}
	}
}

// comparison reads a chain a < b <= c.
func (p *parser) comparison(first expr) expr {
	c := &compareExpr{first: first, line: p.peek().line}
	for p.power() == bindCompare {
		op := p.next().text
		if op == "not" {
			p.next()
			op = "not in"
		}
		c.ops, c.rest = append(c.ops, op), append(c.rest, p.operators(bindCompare+1))
	}
	return c
}

// unary reads signs, a primary expression and its suffixes. Filters bind
// looser than a sign: -1|abs is 1.
func (p *parser) unary(withFilters bool) expr {
	p.enter()
	defer p.leave()
	var x expr
	if t := p.peek(); t.isOp("-") || t.isOp("+") {
		p.next()
		x = &unaryExpr{t.text, p.unary(false), t.line}
	} else {
		x = p.primary()
	}
	x = p.postfix(x)
	if withFilters {
		x = p.filters(x)
	}
	return x
}

func (p *parser) primary() expr {
	t := p.next()
	switch t.kind {
	case tokName:
		switch t.text {
		case "true", "True":
			return &literalExpr{true}
		case "false", "False":
			return &literalExpr{false}
		case "none", "None":
			return &literalExpr{nil}
		case "and", "or", "in", "is", "if", "else", "not":
			panic(p.errorf(t.line, "unexpected '%s'", t.text))
		}
		return &nameExpr{t.text, t.line}
	case tokString:
		s := t.text
		for p.peek().kind == tokString {
			s += p.next().text
		}
		return &literalExpr{s}
	case tokInt:
		return p.integer(t)
	case tokFloat:
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			panic(p.errorf(t.line, "bad number %s", t.text))
		}
		return &literalExpr{f}
	case tokOp:
		switch t.text {
		case "(":
			if p.skipOp(")") {
				return &listExpr{tuple: true}
			}
			x := p.tuple()
			p.wantOp(")")
			return x
		case "[":
			out := new(listExpr)
			p.items("]", func() { out.items = append(out.items, p.expression()) })
			return out
		case "{":
			out := new(dictExpr)
			p.items("}", func() {
				out.keys = append(out.keys, p.expression())
				p.wantOp(":")
				out.values = append(out.values, p.expression())
			})
			return out
		}
	}
	panic(p.errorf(t.line, "expected an expression, found %v", t))
}

func (p *parser) integer(t token) expr {
	i, err := strconv.ParseInt(t.text, 0, 64)
	if err != nil {
		panic(p.errorf(t.line, "bad number %s", t.text))
	}
	return &literalExpr{i}
}

// items calls item before each element of a list that ends with closing. A
// comma may follow the last element.
func (p *parser) items(closing string, item func()) {
	for n := 0; !p.skipOp(closing); n++ {
		if n > 0 {
			p.wantOp(",")
			if p.skipOp(closing) {
				return
			}
		}
		item()
	}
}

// postfix reads attributes, subscripts and calls.
func (p *parser) postfix(x expr) expr {
	for {
		t := p.peek()
		switch {
		case p.skipOp("."):
			switch attr := p.next(); attr.kind {
			case tokName:
				x = &attrExpr{x, attr.text, t.line}
			case tokInt:
				x = &itemExpr{x, p.integer(attr), t.line}
			default:
				panic(p.errorf(attr.line, "expected a name after '.', found %v", attr))
			}
		case p.skipOp("["):
			x = p.subscript(x, t.line)
		case t.isOp("("):
			x = &callExpr{x, p.arguments(), t.line}
		default:
			return x
		}
	}
}

func (p *parser) subscript(x expr, line int) expr {
	var parts [3]expr
	n := 0
	for ; n < 3; n++ {
		if t := p.peek(); !t.isOp(":") && !t.isOp("]") {
			parts[n] = p.expression()
		}
		if !p.skipOp(":") {
			break
		}
	}
	p.wantOp("]")
	if n > 0 {
		return &sliceExpr{x, parts, line}
	}
	if parts[0] == nil {
		panic(p.errorf(line, "an empty subscript"))
	}
	return &itemExpr{x, parts[0], line}
}

func (p *parser) arguments() (a argList) {
	p.wantOp("(")
	p.items(")", func() {
		t := p.peek()
		switch {
		case t.isOp("*") || t.isOp("**"):
			panic(p.errorf(t.line, "'%s' in arguments is not supported", t.text))
		case t.kind == tokName && p.ahead().isOp("="):
			p.next()
			p.next()
			a.keywords, a.values = append(a.keywords, t.text), append(a.values, p.expression())
		case len(a.keywords) > 0:
			panic(p.errorf(t.line, "an argument without a name after one with a name"))
		default:
			a.pos = append(a.pos, p.expression())
		}
	})
	return a
}

// filters reads filters, tests and calls of their results.
func (p *parser) filters(x expr) expr {
	for {
		t := p.peek()
		switch {
		case p.skipOp("|"):
			x = p.filter(x, t.line)
		case p.skipName("is"):
			x = p.test(x, t.line)
		case t.isOp("("):
			x = &callExpr{x, p.arguments(), t.line}
		default:
			return x
		}
	}
}

func (p *parser) filter(x expr, line int) expr {
	out := &filterExpr{name: p.name(), x: x, line: line}
	if p.peek().isOp("(") {
		out.args = p.arguments()
	}
	return out
}

func (p *parser) test(x expr, line int) expr {
	not := p.skipName("not")
	out := &testExpr{name: p.name(), x: x, not: not, line: line}
	t := p.peek()
	switch {
	case t.isOp("("):
		out.args = p.arguments()
	case t.kind == tokString, t.kind == tokInt, t.kind == tokFloat, t.isOp("["), t.isOp("{"), t.kind == tokName && !afterTest[t.text]:
		out.args.pos = []expr{p.postfix(p.primary())}
	}
	return out
}

// afterTest lists the names that may follow a test without being its argument.
var afterTest = map[string]bool{"else": true, "or": true, "and": true, "if": true, "is": true, "in": true, "not": true, "recursive": true}
