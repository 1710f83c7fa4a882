package chat

// jump is the pending break or continue of a for loop. The remaining
// statements of the loop's body are skipped.
type jump int

const (
	noJump jump = iota
	breakLoop
	continueLoop
)

// eval returns the value of the expression x, which starts on the given line. It sets the current line
// before and after the evaluation, so that an error in an operation on the value names this line.
func (c *context) eval(x expr, line int) any {
	c.line = line
	v := x(c)
	c.line = line
	return v
}

// unpack assigns v to one target, or the items of v to several targets.
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

// blockText returns the output of a set or filter block to the filters of the
// block. A variable of the rendering stores the output, because goroutines share
// templates. Templates cannot use the variable's name.
func blockText(c *context) any { return c.lookup(blockName) }

const blockName = "{text}"

// captured returns an expression that runs body in a new scope and then evaluates the expression
// filters, which reads the output of body with blockText. A break or continue discards the output.
func captured(body stmt, filters expr) expr {
	return func(c *context) (v any) {
		text := c.capture(func() { c.inside(c.scope, func() { body(c) }) })
		if c.jump != noJump {
			return nil
		}
		c.inside(c.scope, func() {
			c.assign(blockName, text)
			v = filters(c)
		})
		return v
	}
}

// forLoop is a compiled for tag.
type forLoop struct {
	targets     []target
	items       expr
	cond        expr // nil if the tag has no if
	body, other stmt
	line        int
}

func (f *forLoop) run(c *context) {
	items := c.iterate(c.eval(f.items, f.line))
	if f.cond != nil {
		items = f.filter(c, items)
	}
	if len(items) == 0 {
		f.other(c)
		return
	}
	for i := range items {
		c.inside(c.scope, func() {
			c.line = f.line
			c.unpack(f.targets, items[i])
			c.assign("loop", &loop{items, i})
			f.body(c)
		})
		to := c.jump
		c.jump = noJump
		if to == breakLoop {
			return
		}
		c.spend(4)
	}
}

func (f *forLoop) filter(c *context, items []any) []any {
	var kept []any
	for _, x := range items {
		c.inside(c.scope, func() {
			c.line = f.line
			c.unpack(f.targets, x)
			if truth(f.cond(c)) {
				kept = append(kept, x)
			}
		})
	}
	c.spend(len(items))
	return kept
}

// loop is the loop variable of a for body.
type loop struct {
	items []any
	i     int
}

// attribute returns loop.name.
func (l *loop) attribute(name string) any {
	if f := loopAttributes[name]; f != nil {
		return f(l)
	}
	return undefined{"'loop." + name + "'"}
}

// loopAttributes are the attributes of a loop. There are no recursive loops, so
// depth is 1.
var loopAttributes = map[string]func(l *loop) any{
	"index":     func(l *loop) any { return int64(l.i + 1) },
	"index0":    func(l *loop) any { return int64(l.i) },
	"revindex":  func(l *loop) any { return int64(len(l.items) - l.i) },
	"revindex0": func(l *loop) any { return int64(len(l.items) - l.i - 1) },
	"first":     func(l *loop) any { return l.i == 0 },
	"last":      func(l *loop) any { return l.i == len(l.items)-1 },
	"length":    func(l *loop) any { return int64(len(l.items)) },
	"depth":     func(*loop) any { return int64(1) },
	"depth0":    func(*loop) any { return int64(0) },
	"previtem":  func(l *loop) any { return l.neighbour(l.i-1, "'loop.previtem'") },
	"nextitem":  func(l *loop) any { return l.neighbour(l.i+1, "'loop.nextitem'") },
	"cycle": func(l *loop) any {
		return &callable{name: "loop.cycle", f: func(c *context, _ any, a *args) any {
			if len(a.pos) == 0 || a.kw.len() > 0 {
				panic(c.errorf("loop.cycle needs values"))
			}
			return a.pos[l.i%len(a.pos)]
		}}
	},
}

func (l *loop) neighbour(i int, what string) any {
	if i < 0 || i >= len(l.items) {
		return undefined{what}
	}
	return l.items[i]
}

// macro is a compiled macro tag.
type macro struct {
	name     string
	params   []string
	defaults []expr // defaults of the last parameters
	body     stmt
}

// define assigns the macro to its name.
func (m *macro) define(c *context) {
	home := c.scope
	c.assign(m.name, &callable{name: "macro " + m.name, f: func(c *context, _ any, a *args) any {
		if c.calls++; c.calls > maxCalls {
			panic(c.errorf("macro calls nested deeper than %d", maxCalls))
		}
		values := c.bind(a, 0, m.params)
		var out string
		c.inside(home, func() {
			for i, v := range values {
				if absent(v) {
					v = undefined{"parameter '" + m.params[i] + "' of " + a.name}
					if d := i - (len(m.params) - len(m.defaults)); d >= 0 {
						v = m.defaults[d](c)
					}
				}
				c.assign(m.params[i], v)
			}
			out = c.capture(func() { m.body(c) })
		})
		c.calls--
		return out
	}})
}
