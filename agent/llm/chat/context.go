package chat

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Bounds on the work and memory of a rendering. They are far above any real template.
const (
	maxSteps  = 2_000_000
	maxString = 16 << 20 // bytes of one string, and of the output
	maxItems  = 1 << 20  // items of one list
	maxCalls  = 60       // depth of macro calls
	maxDepth  = 100      // depth of values
)

// context is the state of one rendering.
type context struct {
	line    int // current line of the template, for errors
	steps   int
	calls   int
	jump    jump
	globals *dict // input variables and global functions
	scope   *scope
	out     *strings.Builder
	now     func() time.Time
}

// scope holds the variables of a for body, a macro or a block.
type scope struct {
	vars   map[string]any
	parent *scope
}

// errorf returns an error at the current line. Callers panic with it.
func (c *context) errorf(format string, args ...any) *Error {
	return &Error{c.line, fmt.Sprintf(format, args...)}
}

// spend adds n+1 to the number of steps and panics above maxSteps.
func (c *context) spend(n int) {
	if c.steps += n + 1; c.steps > maxSteps {
		panic(c.errorf("the template takes more than %d steps", maxSteps))
	}
}

// spendRead counts the reading of a string as work. The parts of other values are
// counted where they are read. Changing case is the slowest operation on strings.
// With one step per 16 bytes, a rendering can do this for at most 32 MB of text.
func (c *context) spendRead(v any) {
	s, _ := textOf(v)
	c.spend(len(s) / 16)
}

// spendReadAll counts the reading of a method's or filter's operand and arguments.
func (c *context) spendReadAll(v any, a *args) {
	c.spendRead(v)
	for _, x := range a.pos {
		c.spendRead(x)
	}
	for _, e := range a.kw.entries {
		c.spendRead(e.value)
	}
}

// spendCompare counts a comparison with the string v, or a look-up of v, as
// work. The parts of other values are counted where they are compared.
func (c *context) spendCompare(v any) {
	s, _ := textOf(v)
	c.spend(len(s) / 64)
}

// text returns s, a new string. It checks the length and counts the bytes as work.
func (c *context) text(s string) string {
	c.checkBytes(len(s))
	c.spend(len(s) / 64)
	return s
}

// checkBytes panics if a string of n bytes is too long.
func (c *context) checkBytes(n int) {
	if n > maxString {
		panic(c.errorf("a string grew longer than %d bytes", maxString))
	}
}

// checkItems panics if a list of n items is too long.
func (c *context) checkItems(n int) {
	if n > maxItems {
		panic(c.errorf("a list grew longer than %d items", maxItems))
	}
}

// checkDepth panics if values are nested deeper than maxDepth.
func (c *context) checkDepth(depth int) {
	if depth > maxDepth {
		panic(c.errorf("values nested deeper than %d", maxDepth))
	}
}

func (c *context) write(s string) {
	c.checkBytes(c.out.Len() + len(s))
	c.out.WriteString(s)
}

func (c *context) lookup(name string) any {
	for s := c.scope; s != nil; s = s.parent {
		if v, ok := s.vars[name]; ok {
			return v
		}
	}
	if v, ok := c.globals.get(name); ok {
		return v
	}
	return undefined{"'" + name + "'"}
}

func (c *context) assign(name string, v any) {
	if c.scope.vars == nil {
		c.scope.vars = map[string]any{}
	}
	c.scope.vars[name] = v
}

// inside runs f in a new scope whose parent is outer.
func (c *context) inside(outer *scope, f func()) {
	saved := c.scope
	c.scope = &scope{parent: outer}
	f()
	c.scope = saved
}

// capture runs f and returns its output instead of writing it.
func (c *context) capture(f func()) string {
	saved := c.out
	c.out = new(strings.Builder)
	f()
	s := c.out.String()
	c.out = saved
	c.spend(len(s) / 64)
	return s
}

// function is a filter, a test, a method or a global function. v is the operand
// of a filter, test or method, and nil for global functions.
type function func(c *context, v any, a *args) any

// args are the arguments of a function.
type args struct {
	name string // function name, for errors
	pos  []any
	kw   dict
}

// absentArg stands for an argument that was not given.
type absentArg struct{}

func absent(v any) bool { return v == absentArg{} }

// takes returns a function that binds its arguments to params, a list of names
// separated by spaces, and calls f with the values in that order. A name that
// ends in '!' is required; for other missing arguments, f gets absentArg.
func takes(params string, f func(c *context, v any, p []any) any) function {
	need := strings.Count(params, "!")
	names := strings.Fields(strings.ReplaceAll(params, "!", ""))
	return func(c *context, v any, a *args) any { return f(c, v, c.bind(a, need, names)) }
}

// bind returns the arguments in the order of names. The arguments named in
// names[:need] are required.
func (c *context) bind(a *args, need int, names []string) []any {
	if len(a.pos) > len(names) {
		panic(c.errorf("%s takes at most %d arguments, not %d", a.name, len(names), len(a.pos)))
	}
	out := slices.Repeat([]any{absentArg{}}, len(names))
	copy(out, a.pos)
	for _, e := range a.kw.entries {
		i := slices.Index(names, e.key.(string))
		if i < 0 {
			panic(c.errorf("%s has no argument %q", a.name, e.key))
		}
		if i < len(a.pos) {
			panic(c.errorf("%s got its argument %q twice", a.name, e.key))
		}
		out[i] = e.value
	}
	if i := slices.Index(out[:need], any(absentArg{})); i >= 0 {
		panic(c.errorf("%s needs its argument %q", a.name, names[i]))
	}
	return out
}

// strArg and intArg return the argument v, or def if v was not given.
func (c *context) strArg(v any, def string) string {
	if absent(v) {
		return def
	}
	s, ok := textOf(v)
	if !ok {
		panic(c.errorf("a string is needed, not a %s", typeName(v)))
	}
	return s
}

func (c *context) intArg(v any, def int) int {
	if absent(v) {
		return def
	}
	_, isInt, i, ok := number(v)
	if !ok || !isInt {
		panic(c.errorf("an integer is needed, not a %s", typeName(v)))
	}
	return int(min(max(i, -1<<40), 1<<40))
}
