package chat

import "strings"

// expr is an expression. An expression whose evaluation can fail sets the
// context's line before its own operation, after that of its operands.
type expr interface {
	eval(c *context) any
}

type (
	literalExpr struct{ value any }
	nameExpr    struct {
		name string
		line int
	}
	listExpr struct {
		items []expr
		tuple bool
	}
	dictExpr  struct{ keys, values []expr }
	unaryExpr struct {
		op   string
		x    expr
		line int
	}
	binaryExpr struct {
		op   string
		a, b expr
		line int
	}
	compareExpr struct {
		first expr
		ops   []string
		rest  []expr
		line  int
	}
	condExpr struct{ test, then, other expr } // other is nil without else
	attrExpr struct {
		x    expr
		name string
		line int
	}
	itemExpr struct {
		x, key expr
		line   int
	}
	sliceExpr struct {
		x     expr
		parts [3]expr // nil where omitted
		line  int
	}
	callExpr struct {
		f    expr
		args argList
		line int
	}
	filterExpr struct {
		name string
		x    expr
		args argList
		line int
	}
	testExpr struct {
		name string
		x    expr
		args argList
		not  bool
		line int
	}
)

// argList holds the expressions of arguments.
type argList struct {
	pos      []expr
	keywords []string
	values   []expr // of keywords
}

func (l *argList) eval(c *context, name string) *args {
	a := &args{name: name}
	for _, e := range l.pos {
		a.pos = append(a.pos, e.eval(c))
	}
	for i, e := range l.values {
		a.kw.set(l.keywords[i], e.eval(c))
	}
	return a
}

func (e *literalExpr) eval(*context) any { return e.value }

func (e *nameExpr) eval(c *context) any {
	c.line = e.line
	c.spend(0)
	return c.lookup(e.name)
}

func (e *listExpr) eval(c *context) any {
	out := &list{tuple: e.tuple, items: make([]any, len(e.items))}
	for i, x := range e.items {
		out.items[i] = x.eval(c)
	}
	c.spend(len(out.items))
	return out
}

func (e *dictExpr) eval(c *context) any {
	out := new(dict)
	for i := range e.keys {
		key, value := e.keys[i].eval(c), e.values[i].eval(c)
		if !out.set(key, value) {
			panic(c.errorf("a %s cannot be a key", typeName(key)))
		}
	}
	c.spend(out.len())
	return out
}

func (e *unaryExpr) eval(c *context) any {
	v := e.x.eval(c)
	if e.op == "not" {
		return !truth(v)
	}
	c.line = e.line
	f, isInt, i, ok := number(v)
	switch {
	case !ok:
		panic(c.operandError(e.op, v))
	case e.op == "+" && isInt:
		return i
	case e.op == "+":
		return f
	case isInt:
		return -i
	}
	return -f
}

// operandError is the error of an operator that does not take values such as vs.
func (c *context) operandError(op string, vs ...any) *Error {
	names := make([]string, len(vs))
	for i, v := range vs {
		if u, ok := v.(undefined); ok {
			return c.undefinedError(u)
		}
		names[i] = typeName(v)
	}
	return c.errorf("'%s' does not work with %s", op, strings.Join(names, " and "))
}

func (e *binaryExpr) eval(c *context) any {
	a := e.a.eval(c)
	if e.op == "and" && !truth(a) || e.op == "or" && truth(a) {
		return a
	}
	b := e.b.eval(c)
	if e.op == "and" || e.op == "or" {
		return b
	}
	c.line = e.line
	return c.binary(e.op, a, b)
}

func (e *compareExpr) eval(c *context) any {
	a := e.first.eval(c)
	for i, op := range e.ops {
		b := e.rest[i].eval(c)
		c.line = e.line
		if !c.compareOp(op, a, b) {
			return false
		}
		a = b
	}
	return true
}

func (c *context) compareOp(op string, a, b any) bool {
	switch op {
	case "==":
		return c.equal(a, b, 0)
	case "!=":
		return !c.equal(a, b, 0)
	case "in":
		return c.contains(b, a)
	case "not in":
		return !c.contains(b, a)
	}
	for _, v := range []any{a, b} {
		if u, ok := v.(undefined); ok {
			panic(c.undefinedError(u))
		}
	}
	n := c.compare(a, b, 0)
	switch op {
	case "<":
		return n < 0
	case "<=":
		return n <= 0
	case ">":
		return n > 0
	}
	return n >= 0
}

func (e *condExpr) eval(c *context) any {
	switch {
	case truth(e.test.eval(c)):
		return e.then.eval(c)
	case e.other == nil:
		return undefined{"the value of an inline if without else"}
	}
	return e.other.eval(c)
}

func (e *attrExpr) eval(c *context) any {
	v := e.x.eval(c)
	c.line = e.line
	return c.attribute(v, e.name)
}

func (e *itemExpr) eval(c *context) any {
	v, key := e.x.eval(c), e.key.eval(c)
	c.line = e.line
	return c.item(v, key)
}

func (e *sliceExpr) eval(c *context) any {
	v := e.x.eval(c)
	var parts [3]any
	for i, p := range e.parts {
		if p != nil {
			parts[i] = p.eval(c)
		}
	}
	c.line = e.line
	return c.slice(v, parts)
}

func (e *callExpr) eval(c *context) any {
	f := e.f.eval(c)
	c.line = e.line
	fn, ok := f.(*callable)
	if !ok {
		if u, is := f.(undefined); is {
			panic(c.errorf("function %s is not known", u.what))
		}
		panic(c.errorf("a %s cannot be called", typeName(f)))
	}
	a := e.args.eval(c, fn.name)
	c.line = e.line
	c.spend(1)
	if fn.self != nil {
		c.readAll(fn.self, a)
	}
	return fn.f(c, fn.self, a)
}

// Templates of models may name filters and tests that only some conversations
// reach, so an unknown one is an error when it is evaluated, as in Jinja.

func (c *context) filterNamed(name string) function {
	f := filters[name]
	if f == nil {
		panic(c.errorf("filter '%s' is not supported", name))
	}
	return func(c *context, v any, a *args) any {
		c.readAll(v, a)
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

func (e *filterExpr) eval(c *context) any {
	c.line = e.line
	f := c.filterNamed(e.name)
	v, a := e.x.eval(c), e.args.eval(c, "filter "+e.name)
	c.line = e.line
	return f(c, v, a)
}

func (e *testExpr) eval(c *context) any {
	c.line = e.line
	f := c.testNamed(e.name)
	v, a := e.x.eval(c), e.args.eval(c, "test "+e.name)
	c.line = e.line
	c.spend(1)
	return truth(f(c, v, a)) != e.not
}
