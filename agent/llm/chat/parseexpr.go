package chat

import (
	"slices"
	"strconv"
	"strings"
)

// Binding powers of the binary operators, as in Jinja: an operator of higher
// power binds tighter. Separate functions parse chains of comparisons and
// conditional expressions.
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

// power returns the binding power of the next token, 0 if it is not a binary operator.
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

// tuple compiles expressions separated by commas. A single expression without a
// comma is not a tuple.
func (p *parser) tuple() expr { return p.tupleOf(p.expression) }

func (p *parser) tupleOf(item func() expr) expr {
	first := item()
	if !p.peek().isOp(",") {
		return first
	}
	items := []expr{first}
	for p.skipOp(",") {
		if t := p.peek(); t.isOp("}}") || t.isOp("%}") || t.isOp(")") {
			break
		}
		items = append(items, item())
	}
	return listExpr(items, true)
}

func listExpr(items []expr, tuple bool) expr {
	return func(c *context) any {
		out := &list{tuple: tuple, items: make([]any, len(items))}
		for i, x := range items {
			out.items[i] = x(c)
		}
		c.spend(len(out.items))
		return out
	}
}

// expression compiles an expression, inline ifs included.
func (p *parser) expression() expr {
	p.enter()
	defer p.leave()
	x := p.operators(bindOr)
	for p.skipName("if") {
		then, test := x, p.operators(bindOr)
		other := literal(undefined{"the value of an inline if without else"})
		if p.skipName("else") {
			other = p.expression()
		}
		x = func(c *context) any {
			if truth(test(c)) {
				return then(c)
			}
			return other(c)
		}
	}
	return x
}

// operators compiles an expression up to the first operator whose binding power
// is lower than the argument least.
func (p *parser) operators(least int) expr {
	p.enter()
	defer p.leave()
	var left expr
	if least <= bindNot && p.skipName("not") {
		x := p.operators(bindNot)
		left = func(c *context) any { return !truth(x(c)) }
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
			left = binaryExpr(t, left, p.operators(power+1))
		}
	}
}

func binaryExpr(op token, x, y expr) expr {
	return func(c *context) any {
		a := x(c)
		if op.text == "and" && !truth(a) || op.text == "or" && truth(a) {
			return a
		}
		b := c.eval(y, op.line)
		if op.text == "and" || op.text == "or" {
			return b
		}
		return c.binary(op.text, a, b)
	}
}

// comparison compiles a chain a < b <= c.
func (p *parser) comparison(first expr) expr {
	line := p.peek().line
	var ops []string
	var rest []expr
	for p.power() == bindCompare {
		op := p.next().text
		if op == "not" {
			p.next()
			op = "not in"
		}
		ops, rest = append(ops, op), append(rest, p.operators(bindCompare+1))
	}
	return func(c *context) any {
		a := first(c)
		for i, op := range ops {
			b := c.eval(rest[i], line)
			if !c.compareOp(op, a, b) {
				return false
			}
			a = b
		}
		return true
	}
}

// unary compiles signs, a primary expression and its suffixes. Filters bind
// looser than a sign: -1|abs is 1.
func (p *parser) unary(withFilters bool) expr {
	p.enter()
	defer p.leave()
	var x expr
	if t := p.peek(); t.isOp("-") || t.isOp("+") {
		p.next()
		operand := p.unary(false)
		x = func(c *context) any { return c.signed(t.text, c.eval(operand, t.line)) }
	} else {
		x = p.primary()
	}
	x = p.postfix(x)
	if withFilters {
		x = p.filters(x)
	}
	return x
}

func literal(v any) expr { return func(*context) any { return v } }

var (
	constants = map[string]any{"true": true, "True": true, "false": false, "False": false, "none": nil, "None": nil}
	keywords  = []string{"and", "or", "not", "in", "is", "if", "else"}
)

func (p *parser) primary() expr {
	t := p.next()
	switch t.kind {
	case tokName:
		if v, ok := constants[t.text]; ok {
			return literal(v)
		}
		if slices.Contains(keywords, t.text) {
			panic(p.errorf(t.line, "unexpected '%s'", t.text))
		}
		return func(c *context) any {
			c.line = t.line
			c.spend(0)
			return c.lookup(t.text)
		}
	case tokString:
		s := t.text
		for p.peek().kind == tokString {
			s += p.next().text
		}
		return literal(s)
	case tokInt:
		return p.integer(t)
	case tokFloat:
		f, err := strconv.ParseFloat(strings.ReplaceAll(t.text, "_", ""), 64)
		if err != nil {
			panic(p.errorf(t.line, "bad number %s", t.text))
		}
		return literal(f)
	case tokOp:
		switch t.text {
		case "(":
			if p.skipOp(")") {
				return listExpr(nil, true)
			}
			x := p.tuple()
			p.wantOp(")")
			return x
		case "[":
			var items []expr
			p.items("]", func() { items = append(items, p.expression()) })
			return listExpr(items, false)
		case "{":
			return p.dict()
		}
	}
	panic(p.errorf(t.line, "expected an expression, found %v", t))
}

func (p *parser) integer(t token) expr {
	i, err := strconv.ParseInt(t.text, 0, 64)
	if err != nil {
		panic(p.errorf(t.line, "bad number %s", t.text))
	}
	return literal(i)
}

// items reads a list up to its closing token and calls the function item to read
// each element. A comma may follow the last element.
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

func (p *parser) dict() expr {
	var keys, values []expr
	p.items("}", func() {
		keys = append(keys, p.expression())
		p.wantOp(":")
		values = append(values, p.expression())
	})
	return func(c *context) any {
		out := new(dict)
		for i := range keys {
			key, value := keys[i](c), values[i](c)
			if !out.set(key, value) {
				panic(c.errorf("a %s cannot be a key", typeName(key)))
			}
		}
		c.spend(out.len())
		return out
	}
}

// postfix compiles attributes, subscripts and calls.
func (p *parser) postfix(x expr) expr {
	for {
		t := p.peek()
		switch {
		case p.skipOp("."):
			switch attr := p.next(); attr.kind {
			case tokName:
				of := x
				x = func(c *context) any { return c.attribute(c.eval(of, t.line), attr.text) }
			case tokInt:
				x = itemExpr(x, p.integer(attr), t.line)
			default:
				panic(p.errorf(attr.line, "expected a name after '.', found %v", attr))
			}
		case p.skipOp("["):
			x = p.subscript(x, t.line)
		case t.isOp("("):
			x = callExpr(x, p.arguments(), t.line)
		default:
			return x
		}
	}
}

func itemExpr(x, key expr, line int) expr {
	return func(c *context) any {
		return c.item(x(c), c.eval(key, line))
	}
}

func (p *parser) subscript(x expr, line int) expr {
	var bounds [3]expr // nil for an omitted bound
	n := 0
	for ; n < 3; n++ {
		if t := p.peek(); !t.isOp(":") && !t.isOp("]") {
			bounds[n] = p.expression()
		}
		if !p.skipOp(":") {
			break
		}
	}
	p.wantOp("]")
	switch {
	case n == 0 && bounds[0] == nil:
		panic(p.errorf(line, "an empty subscript"))
	case n == 0:
		return itemExpr(x, bounds[0], line)
	}
	return func(c *context) any {
		v := x(c)
		var values [3]any
		for i, b := range bounds {
			if b != nil {
				values[i] = b(c)
			}
		}
		c.line = line
		return c.slice(v, values)
	}
}

func callExpr(f expr, list argList, line int) expr {
	return func(c *context) any {
		v := c.eval(f, line)
		if u, ok := v.(undefined); ok {
			panic(c.errorf("function %s is not known", u.what))
		}
		fn, ok := v.(*callable)
		if !ok {
			panic(c.errorf("a %s cannot be called", typeName(v)))
		}
		a := list.eval(c, fn.name)
		c.line = line
		c.spend(1)
		if fn.self != nil {
			c.spendReadAll(fn.self, a)
		}
		return fn.f(c, fn.self, a)
	}
}

// argList holds the expressions of arguments.
type argList struct {
	pos      []expr
	keywords []string
	values   []expr // values of keyword arguments
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

func (l *argList) eval(c *context, name string) *args {
	a := &args{name: name}
	for _, x := range l.pos {
		a.pos = append(a.pos, x(c))
	}
	for i, x := range l.values {
		a.kw.set(l.keywords[i], x(c))
	}
	return a
}

// filters compiles filters, tests and calls of their results.
func (p *parser) filters(x expr) expr {
	for {
		t := p.peek()
		switch {
		case p.skipOp("|"):
			x = p.filter(x, t.line)
		case p.skipName("is"):
			x = p.test(x, t.line)
		case t.isOp("("):
			x = callExpr(x, p.arguments(), t.line)
		default:
			return x
		}
	}
}

func (p *parser) filter(x expr, line int) expr {
	name := p.name()
	var list argList
	if p.peek().isOp("(") {
		list = p.arguments()
	}
	return func(c *context) any {
		c.line = line
		f := c.filterNamed(name)
		v, a := x(c), list.eval(c, "filter "+name)
		c.line = line
		return f(c, v, a)
	}
}

func (p *parser) test(x expr, line int) expr {
	not := p.skipName("not")
	name := p.name()
	var list argList
	t := p.peek()
	switch {
	case t.isOp("("):
		list = p.arguments()
	case t.kind == tokString, t.kind == tokInt, t.kind == tokFloat, t.isOp("["), t.isOp("{"), t.kind == tokName && t.text != "recursive" && !slices.Contains(keywords, t.text):
		list.pos = []expr{p.postfix(p.primary())}
	}
	return func(c *context) any {
		c.line = line
		f := c.testNamed(name)
		v, a := x(c), list.eval(c, "test "+name)
		c.line = line
		c.spend(1)
		return truth(f(c, v, a)) != not
	}
}

// As in Jinja, an unknown filter or test is an error only when a rendering
// evaluates it. Most conversations may never do so.

func (c *context) filterNamed(name string) function {
	f := filters[name]
	if f == nil {
		panic(c.errorf("filter '%s' is not supported", name))
	}
	return func(c *context, v any, a *args) any {
		c.spendReadAll(v, a)
		return f(c, v, a)
	}
}

func (c *context) testNamed(name string) function {
	f := tests[name]
	if f == nil {
		panic(c.errorf("test '%s' is not supported", name))
	}
	return f
}
