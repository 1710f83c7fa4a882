package chat

import (
	"errors"
	"fmt"
)

// stmt is a piece of a template that writes output or sets variables.
type stmt interface {
	exec(c *context) error
}

// errBreak and errContinue travel from their tags to the loop around them.
var (
	errBreak    = errors.New("break")
	errContinue = errors.New("continue")
)

type (
	textStmt  struct{ text string }
	printStmt struct {
		x    expr
		line int
	}
	ifStmt struct {
		tests  []expr
		bodies [][]stmt
		other  []stmt
	}
	forStmt struct {
		targets []string
		iter    expr
		cond    expr // nil without if
		body    []stmt
		other   []stmt
		line    int
	}
	setStmt struct {
		targets []target
		value   expr
		line    int
	}
	setBlockStmt struct {
		target target
		body   []stmt
		value  expr // filters applied to the variable blockText, nil without filters
		line   int
	}
	filterStmt struct {
		body  []stmt
		value expr // filters applied to the variable blockText
		line  int
	}
	macroStmt struct {
		name     string
		params   []string
		defaults []expr // of the last parameters
		body     []stmt
		line     int
	}
	blockStmt struct{ body []stmt } // generation: its own scope
	jumpStmt  struct{ err error }
)

// target is what set assigns to: a name, or an attribute of a namespace.
type target struct{ name, attr string }

func (c *context) run(body []stmt) error {
	for _, s := range body {
		if err := c.spend(0); err != nil {
			return err
		}
		if err := s.exec(c); err != nil {
			return err
		}
	}
	return nil
}

func (s *textStmt) exec(c *context) error { return c.write(s.text) }

func (s *printStmt) exec(c *context) error {
	v, err := s.x.eval(c)
	if err != nil {
		return at(err, s.line)
	}
	text, err := c.str(v)
	if err == nil {
		err = c.write(text)
	}
	return at(err, s.line)
}

func (s *ifStmt) exec(c *context) error {
	for i, t := range s.tests {
		v, err := t.eval(c)
		if err != nil {
			return err
		}
		if truth(v) {
			return c.run(s.bodies[i])
		}
	}
	return c.run(s.other)
}

func (s *jumpStmt) exec(*context) error { return s.err }

func (s *blockStmt) exec(c *context) error {
	return c.inside(c.scope, func() error { return c.run(s.body) })
}

func (s *forStmt) exec(c *context) error {
	v, err := s.iter.eval(c)
	if err != nil {
		return at(err, s.line)
	}
	items, err := c.iterate(v)
	if err != nil {
		return at(err, s.line)
	}
	outer := c.scope
	if s.cond != nil {
		if items, err = s.filter(c, items); err != nil {
			return at(err, s.line)
		}
	}
	if len(items) == 0 {
		return c.run(s.other)
	}
	for i := range items {
		err := c.inside(outer, func() error {
			if err := s.bind(c, items[i]); err != nil {
				return err
			}
			c.assign("loop", &loop{items, i})
			return c.run(s.body)
		})
		if errors.Is(err, errBreak) {
			return nil
		}
		if err != nil && !errors.Is(err, errContinue) {
			return at(err, s.line)
		}
		if err := c.spend(4); err != nil {
			return at(err, s.line)
		}
	}
	return nil
}

func (s *forStmt) filter(c *context, items []any) ([]any, error) {
	var kept []any
	for _, x := range items {
		err := c.inside(c.scope, func() error {
			if err := s.bind(c, x); err != nil {
				return err
			}
			v, err := s.cond.eval(c)
			if err == nil && truth(v) {
				kept = append(kept, x)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return kept, c.spend(len(items))
}

func (s *forStmt) bind(c *context, v any) error {
	names := make([]target, len(s.targets))
	for i, n := range s.targets {
		names[i].name = n
	}
	return c.unpack(names, v)
}

// unpack assigns v to one target, or its items to several.
func (c *context) unpack(targets []target, v any) error {
	values := []any{v}
	if len(targets) > 1 {
		var err error
		if values, err = c.iterate(v); err != nil {
			return err
		}
		if len(values) != len(targets) {
			return fmt.Errorf("%d values for %d names", len(values), len(targets))
		}
	}
	for i, t := range targets {
		if t.attr == "" {
			c.assign(t.name, values[i])
			continue
		}
		ns, ok := c.lookup(t.name).(*namespace)
		if !ok {
			return fmt.Errorf("cannot set an attribute of '%s', which is not a namespace", t.name)
		}
		ns.attrs.put(t.attr, values[i])
	}
	return nil
}

// loop is the loop variable: where a for loop is.
type loop struct {
	items []any
	i     int
}

// attribute is loop.name. There are no recursive loops, so depth is 1.
func (l *loop) attribute(name string) any {
	n := len(l.items)
	switch name {
	case "index":
		return int64(l.i + 1)
	case "index0":
		return int64(l.i)
	case "revindex":
		return int64(n - l.i)
	case "revindex0":
		return int64(n - l.i - 1)
	case "first":
		return l.i == 0
	case "last":
		return l.i == n-1
	case "length":
		return int64(n)
	case "depth":
		return int64(1)
	case "depth0":
		return int64(0)
	case "previtem":
		if l.i > 0 {
			return l.items[l.i-1]
		}
	case "nextitem":
		if l.i+1 < n {
			return l.items[l.i+1]
		}
	case "cycle":
		return &callable{"loop.cycle", func(_ *context, a *args) (any, error) {
			if len(a.pos) == 0 || a.kw != nil {
				return nil, errors.New("loop.cycle needs values")
			}
			return a.pos[l.i%len(a.pos)], nil
		}}
	}
	return undefined{"'loop." + name + "'"}
}

func (s *setStmt) exec(c *context) error {
	v, err := s.value.eval(c)
	if err == nil {
		err = c.unpack(s.targets, v)
	}
	return at(err, s.line)
}

func (s *setBlockStmt) exec(c *context) error {
	v, err := c.block(s.body, s.value)
	if err != nil {
		return at(err, s.line)
	}
	return at(c.unpack([]target{s.target}, v), s.line)
}

func (s *filterStmt) exec(c *context) error {
	v, err := c.block(s.body, s.value)
	if err != nil {
		return at(err, s.line)
	}
	text, ok := textOf(v)
	if !ok {
		return at(fmt.Errorf("a filter block became a %s, not a string", typeName(v)), s.line)
	}
	return at(c.write(text), s.line)
}

// block is what body writes, in a scope of its own, after filters, which are
// an expression of the variable blockText, or nil.
func (c *context) block(body []stmt, filters expr) (v any, err error) {
	text, err := c.capture(func() error {
		return c.inside(c.scope, func() error { return c.run(body) })
	})
	if err != nil || filters == nil {
		return text, err
	}
	// Templates are shared between goroutines, so the text goes through
	// a variable and not through the tree.
	err = c.inside(c.scope, func() error {
		c.assign(blockText, text)
		v, err = filters.eval(c)
		return err
	})
	return v, err
}

// blockText names the text of a set or filter block for its filters; no
// template can spell it.
const blockText = "{text}"

func (s *macroStmt) exec(c *context) error {
	home := c.scope
	c.assign(s.name, &callable{"macro " + s.name, func(c *context, a *args) (any, error) {
		if c.calls++; c.calls > maxCalls {
			return nil, errCalls
		}
		defer func() { c.calls-- }()
		values, err := a.bind(0, s.params...)
		if err != nil {
			return nil, err
		}
		var out string
		err = c.inside(home, func() error {
			for i, v := range values {
				if absent(v) {
					v = undefined{"parameter '" + s.params[i] + "' of " + a.name}
					if d := i - (len(s.params) - len(s.defaults)); d >= 0 {
						if v, err = s.defaults[d].eval(c); err != nil {
							return err
						}
					}
				}
				c.assign(s.params[i], v)
			}
			out, err = c.capture(func() error { return c.run(s.body) })
			return err
		})
		return out, err
	}})
	return nil
}
