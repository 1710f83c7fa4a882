package chat

import (
	"errors"
	"fmt"
	"strings"
)

// expr is an expression.
type expr interface {
	eval(c *context) (any, error)
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
		parts [3]expr // nil where left out
		line  int
	}
	callExpr struct {
		f    expr
		args argList
		line int
	}
	filterExpr struct {
		name string
		f    filter // nil if it is not known
		x    expr
		args argList
		line int
	}
	testExpr struct {
		name string
		f    test // nil if it is not known
		x    expr
		args argList
		not  bool
		line int
	}
)

// argList are the arguments as written.
type argList struct {
	pos  []expr
	kw   []string
	vals []expr
}

func (l *argList) eval(c *context, name string) (*args, error) {
	a := &args{name: name}
	for _, e := range l.pos {
		v, err := e.eval(c)
		if err != nil {
			return nil, err
		}
		a.pos = append(a.pos, v)
	}
	for i, e := range l.vals {
		v, err := e.eval(c)
		if err != nil {
			return nil, err
		}
		if a.kw == nil {
			a.kw = newDict()
		}
		a.kw.put(l.kw[i], v)
	}
	return a, nil
}

func (e *literalExpr) eval(*context) (any, error) { return e.value, nil }

func (e *nameExpr) eval(c *context) (any, error) {
	if err := c.spend(0); err != nil {
		return nil, at(err, e.line)
	}
	return c.lookup(e.name), nil
}

func (e *listExpr) eval(c *context) (any, error) {
	out := &list{tuple: e.tuple, items: make([]any, 0, len(e.items))}
	for _, x := range e.items {
		v, err := x.eval(c)
		if err != nil {
			return nil, err
		}
		out.items = append(out.items, v)
	}
	return out, c.spend(len(out.items))
}

func (e *dictExpr) eval(c *context) (any, error) {
	out := newDict()
	for i := range e.keys {
		k, err := e.keys[i].eval(c)
		if err != nil {
			return nil, err
		}
		v, err := e.values[i].eval(c)
		if err != nil {
			return nil, err
		}
		if err := out.set(k, v); err != nil {
			return nil, err
		}
	}
	return out, c.spend(out.len())
}

func (e *unaryExpr) eval(c *context) (any, error) {
	v, err := e.x.eval(c)
	if err != nil {
		return nil, err
	}
	if e.op == "not" {
		return !truth(v), nil
	}
	f, isInt, i, ok := number(v)
	switch {
	case !ok:
		return nil, at(operandErr(e.op, v), e.line)
	case e.op == "+" && isInt:
		return i, nil
	case e.op == "+":
		return f, nil
	case isInt:
		return -i, nil
	}
	return -f, nil
}

func operandErr(op string, vs ...any) error {
	names := make([]string, len(vs))
	for i, v := range vs {
		if u, ok := v.(undefined); ok {
			return u.err()
		}
		names[i] = typeName(v)
	}
	return fmt.Errorf("'%s' does not work with %s", op, strings.Join(names, " and "))
}

func (e *binaryExpr) eval(c *context) (any, error) {
	a, err := e.a.eval(c)
	if err != nil {
		return nil, err
	}
	switch e.op {
	case "and":
		if !truth(a) {
			return a, nil
		}
		return e.b.eval(c)
	case "or":
		if truth(a) {
			return a, nil
		}
		return e.b.eval(c)
	}
	b, err := e.b.eval(c)
	if err != nil {
		return nil, err
	}
	v, err := c.binary(e.op, a, b)
	return v, at(err, e.line)
}

func (e *compareExpr) eval(c *context) (any, error) {
	a, err := e.first.eval(c)
	if err != nil {
		return nil, err
	}
	for i, op := range e.ops {
		b, err := e.rest[i].eval(c)
		if err != nil {
			return nil, err
		}
		ok, err := c.compareOp(op, a, b)
		if err != nil {
			return nil, at(err, e.line)
		}
		if !ok {
			return false, nil
		}
		a = b
	}
	return true, nil
}

func (c *context) compareOp(op string, a, b any) (bool, error) {
	switch op {
	case "==":
		return c.equal(a, b, 0)
	case "!=":
		eq, err := c.equal(a, b, 0)
		return !eq, err
	case "in":
		return c.contains(b, a)
	case "not in":
		in, err := c.contains(b, a)
		return !in, err
	}
	for _, v := range []any{a, b} {
		if u, ok := v.(undefined); ok {
			return false, u.err()
		}
	}
	n, err := c.compare(a, b, 0)
	switch op {
	case "<":
		return n < 0, err
	case "<=":
		return n <= 0, err
	case ">":
		return n > 0, err
	}
	return n >= 0, err
}

func (e *condExpr) eval(c *context) (any, error) {
	t, err := e.test.eval(c)
	if err != nil {
		return nil, err
	}
	if truth(t) {
		return e.then.eval(c)
	}
	if e.other == nil {
		return undefined{"the value of an inline if without else"}, nil
	}
	return e.other.eval(c)
}

func (e *attrExpr) eval(c *context) (any, error) {
	v, err := e.x.eval(c)
	if err != nil {
		return nil, err
	}
	v, err = c.attribute(v, e.name)
	return v, at(err, e.line)
}

func (e *itemExpr) eval(c *context) (any, error) {
	v, err := e.x.eval(c)
	if err != nil {
		return nil, err
	}
	k, err := e.key.eval(c)
	if err != nil {
		return nil, err
	}
	v, err = c.item(v, k)
	return v, at(err, e.line)
}

func (e *sliceExpr) eval(c *context) (any, error) {
	v, err := e.x.eval(c)
	if err != nil {
		return nil, err
	}
	var parts [3]any
	for i, p := range e.parts {
		if p != nil {
			if parts[i], err = p.eval(c); err != nil {
				return nil, err
			}
		}
	}
	v, err = c.slice(v, parts)
	return v, at(err, e.line)
}

func (e *callExpr) eval(c *context) (any, error) {
	f, err := e.f.eval(c)
	if err != nil {
		return nil, err
	}
	fn, ok := f.(*callable)
	if !ok {
		if u, is := f.(undefined); is {
			return nil, at(fmt.Errorf("function %s is not known", u.what), e.line)
		}
		return nil, at(fmt.Errorf("a %s cannot be called", typeName(f)), e.line)
	}
	a, err := e.args.eval(c, fn.name)
	if err != nil {
		return nil, err
	}
	if err := c.spend(1); err != nil {
		return nil, at(err, e.line)
	}
	v, err := fn.call(c, a)
	return v, at(err, e.line)
}

// Templates of models may name filters and tests that only some conversations
// reach, so an unknown one is an error when it runs, as in Jinja.
func unknownFilter(name string) error { return fmt.Errorf("filter '%s' is not supported", name) }
func unknownTest(name string) error   { return fmt.Errorf("test '%s' is not supported", name) }

func (e *filterExpr) eval(c *context) (any, error) {
	if e.f == nil {
		return nil, at(unknownFilter(e.name), e.line)
	}
	v, err := e.x.eval(c)
	if err != nil {
		return nil, err
	}
	a, err := e.args.eval(c, "filter "+e.name)
	if err != nil {
		return nil, err
	}
	v, err = c.filter(e.f, v, a)
	return v, at(err, e.line)
}

// filter applies a filter.
func (c *context) filter(f filter, v any, a *args) (any, error) {
	if err := c.readAll(v, a); err != nil {
		return nil, err
	}
	return f(c, v, a)
}

func (e *testExpr) eval(c *context) (any, error) {
	if e.f == nil {
		return nil, at(unknownTest(e.name), e.line)
	}
	v, err := e.x.eval(c)
	if err != nil {
		return nil, err
	}
	a, err := e.args.eval(c, "test "+e.name)
	if err != nil {
		return nil, err
	}
	ok, err := e.f(c, v, a)
	if err == nil {
		err = c.spend(1)
	}
	return ok != e.not, at(err, e.line)
}

var errZero = errors.New("division by zero")
