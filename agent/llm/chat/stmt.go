package chat

// stmt is a piece of a template that writes output or sets variables.
type stmt interface {
	exec(c *context)
}

// jump is the pending break or continue of a for loop. Statements after it are
// skipped up to the loop.
type jump int

const (
	noJump jump = iota
	breakLoop
	continueLoop
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
		targets []target
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
		targets []target // one
		body    []stmt
		filters expr // applied to the variable blockText, nil without filters
		line    int
	}
	filterStmt struct {
		body    []stmt
		filters expr // applied to the variable blockText
		line    int
	}
	macroStmt struct {
		name     string
		params   []string
		defaults []expr // of the last parameters
		body     []stmt
	}
	scopeStmt struct{ body []stmt } // a generation block
	jumpStmt  struct{ to jump }
)

// target is the left side of an assignment: a name, or an attribute of a namespace.
type target struct{ name, attr string }

func (c *context) run(body []stmt) {
	for _, s := range body {
		c.spend(0)
		if s.exec(c); c.jump != noJump {
			return
		}
	}
}

func (s *textStmt) exec(c *context) { c.write(s.text) }

func (s *printStmt) exec(c *context) {
	c.line = s.line
	v := s.x.eval(c)
	c.line = s.line
	c.write(c.str(v))
}

func (s *ifStmt) exec(c *context) {
	for i, t := range s.tests {
		if truth(t.eval(c)) {
			c.run(s.bodies[i])
			return
		}
	}
	c.run(s.other)
}

func (s *jumpStmt) exec(c *context) { c.jump = s.to }

func (s *scopeStmt) exec(c *context) {
	c.inside(c.scope, func() { c.run(s.body) })
}

func (s *forStmt) exec(c *context) {
	c.line = s.line
	v := s.iter.eval(c)
	c.line = s.line
	items := c.iterate(v)
	outer := c.scope
	if s.cond != nil {
		items = s.filter(c, items)
	}
	if len(items) == 0 {
		c.run(s.other)
		return
	}
	for i := range items {
		c.inside(outer, func() {
			c.line = s.line
			c.unpack(s.targets, items[i])
			c.assign("loop", &loop{items, i})
			c.run(s.body)
		})
		to := c.jump
		c.jump = noJump
		if to == breakLoop {
			return
		}
		c.spend(4)
	}
}

func (s *forStmt) filter(c *context, items []any) []any {
	var kept []any
	for _, x := range items {
		c.inside(c.scope, func() {
			c.line = s.line
			c.unpack(s.targets, x)
			if truth(s.cond.eval(c)) {
				kept = append(kept, x)
			}
		})
	}
	c.spend(len(items))
	return kept
}

// unpack assigns v to one target, or its items to several.
func (c *context) unpack(targets []target, v any) {
	values := []any{v}
	if len(targets) > 1 {
		if values = c.iterate(v); len(values) != len(targets) {
			panic(c.errorf("%d values for %d names", len(values), len(targets)))
		}
	}
	for i, t := range targets {
		if t.attr == "" {
			c.assign(t.name, values[i])
			continue
		}
		ns, ok := c.lookup(t.name).(*namespace)
		if !ok {
			panic(c.errorf("cannot set an attribute of '%s', which is not a namespace", t.name))
		}
		ns.attrs.set(t.attr, values[i])
	}
}

// loop is the loop variable of a for body.
type loop struct {
	items []any
	i     int
}

// attribute returns loop.name. There are no recursive loops, so depth is 1.
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
		return &callable{name: "loop.cycle", f: func(c *context, _ any, a *args) any {
			if len(a.pos) == 0 || a.kw.len() > 0 {
				panic(c.errorf("loop.cycle needs values"))
			}
			return a.pos[l.i%len(a.pos)]
		}}
	}
	return undefined{"'loop." + name + "'"}
}

func (s *setStmt) exec(c *context) {
	c.line = s.line
	v := s.value.eval(c)
	c.line = s.line
	c.unpack(s.targets, v)
}

func (s *setBlockStmt) exec(c *context) {
	if v := c.block(s.body, s.filters); c.jump == noJump {
		c.line = s.line
		c.unpack(s.targets, v)
	}
}

func (s *filterStmt) exec(c *context) {
	v := c.block(s.body, s.filters)
	if c.jump != noJump {
		return
	}
	c.line = s.line
	text, ok := textOf(v)
	if !ok {
		panic(c.errorf("a filter block became a %s, not a string", typeName(v)))
	}
	c.write(text)
}

// blockText is the variable that holds the text of a set or filter block for
// its filters. Templates are shared between goroutines, so the text cannot be
// stored in the tree. No template can spell the name.
const blockText = "{text}"

// block returns the output of body, run in a scope of its own, after filters:
// an expression of the variable blockText, or nil. A jump drops the output.
func (c *context) block(body []stmt, filters expr) (v any) {
	text := c.capture(func() {
		c.inside(c.scope, func() { c.run(body) })
	})
	if filters == nil || c.jump != noJump {
		return text
	}
	c.inside(c.scope, func() {
		c.assign(blockText, text)
		v = filters.eval(c)
	})
	return v
}

func (s *macroStmt) exec(c *context) {
	home := c.scope
	c.assign(s.name, &callable{name: "macro " + s.name, f: func(c *context, _ any, a *args) any {
		if c.calls++; c.calls > maxCalls {
			panic(c.errorf("macro calls nested deeper than %d", maxCalls))
		}
		values := c.bind(a, 0, s.params)
		var out string
		c.inside(home, func() {
			for i, v := range values {
				if absent(v) {
					v = undefined{"parameter '" + s.params[i] + "' of " + a.name}
					if d := i - (len(s.params) - len(s.defaults)); d >= 0 {
						v = s.defaults[d].eval(c)
					}
				}
				c.assign(s.params[i], v)
			}
			out = c.capture(func() { c.run(s.body) })
		})
		c.calls--
		return out
	}})
}
