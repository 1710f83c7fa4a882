package chat

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Bounds on what a template may do. They are far above any real template.
const (
	maxSteps  = 2_000_000
	maxString = 16 << 20 // bytes of one string, and of the output
	maxItems  = 1 << 20  // of one list
	maxCalls  = 60       // nested macro calls
)

var (
	errSteps = fmt.Errorf("the template takes more than %d steps", maxSteps)
	errLong  = fmt.Errorf("a string grew longer than %d bytes", maxString)
	errMany  = fmt.Errorf("a list grew longer than %d items", maxItems)
	errDeep  = fmt.Errorf("values nested deeper than %d", maxDepth)
	errCalls = fmt.Errorf("macro calls nested deeper than %d", maxCalls)
)

// context is the state of one rendering.
type context struct {
	steps   int
	calls   int
	globals *dict // input and functions
	scope   *scope
	out     *strings.Builder
	now     func() time.Time
}

// scope holds the variables of a for body, a macro or a block.
type scope struct {
	vars   map[string]any
	parent *scope
}

// spend counts n units of work.
func (c *context) spend(n int) error {
	c.steps += n + 1
	if c.steps > maxSteps {
		return errSteps
	}
	return nil
}

// read counts going through strings as work, whatever comes of it; other
// values are counted where their parts are looked at. Changing case is the
// slowest of what is done to a string, at 16 bytes a step a whole rendering
// may do it to 32 MB.
func (c *context) read(v any) error {
	s, _ := textOf(v)
	return c.spend(len(s) / 16)
}

// readAll is read for what a method or filter is applied to and its arguments.
func (c *context) readAll(v any, a *args) error {
	err := c.read(v)
	for _, x := range a.pos {
		if err == nil {
			err = c.read(x)
		}
	}
	if a.kw != nil {
		for _, e := range a.kw.entries {
			if err == nil {
				err = c.read(e.value)
			}
		}
	}
	return err
}

// compared counts a comparison with v, or a look-up by it, as work where it is
// a string.
func (c *context) compared(v any) error {
	s, _ := textOf(v)
	return c.spend(len(s) / 64)
}

// text checks a string that was made and counts its bytes as work.
func (c *context) text(s string) (any, error) {
	if len(s) > maxString {
		return nil, errLong
	}
	return s, c.spend(len(s) / 64)
}

func (c *context) write(s string) error {
	if c.out.Len()+len(s) > maxString {
		return errLong
	}
	c.out.WriteString(s)
	return nil
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

// inside runs f in a new scope below outer.
func (c *context) inside(outer *scope, f func() error) error {
	saved := c.scope
	c.scope = &scope{parent: outer}
	err := f()
	c.scope = saved
	return err
}

// capture runs f and returns what it wrote instead of writing it.
func (c *context) capture(f func() error) (string, error) {
	saved := c.out
	c.out = new(strings.Builder)
	err := f()
	s := c.out.String()
	c.out = saved
	if err == nil {
		err = c.spend(len(s) / 64)
	}
	return s, err
}

// at gives an error its line, unless it has one from further inside.
func at(err error, line int) error {
	var e *Error
	if err == nil || errors.As(err, &e) || errors.Is(err, errBreak) || errors.Is(err, errContinue) {
		return err
	}
	return &Error{line, err.Error()}
}

// args are the arguments of a call, a filter or a test.
type args struct {
	name string
	pos  []any
	kw   *dict // nil if there are none
}

// absentArg stands for an argument that was not given.
type absentArg struct{}

// bind returns the arguments in the order of names. The first need of them
// must be given.
func (a *args) bind(need int, names ...string) ([]any, error) {
	if len(a.pos) > len(names) {
		return nil, fmt.Errorf("%s takes at most %d arguments, not %d", a.name, len(names), len(a.pos))
	}
	out := make([]any, len(names))
	for i := range out {
		out[i] = absentArg{}
	}
	copy(out, a.pos)
	if a.kw != nil {
		for _, e := range a.kw.entries {
			i := indexOf(names, e.key.(string))
			if i < 0 {
				return nil, fmt.Errorf("%s has no argument %q", a.name, e.key)
			}
			if i < len(a.pos) {
				return nil, fmt.Errorf("%s got its argument %q twice", a.name, e.key)
			}
			out[i] = e.value
		}
	}
	for i := range need {
		if out[i] == (absentArg{}) {
			return nil, fmt.Errorf("%s needs its argument %q", a.name, names[i])
		}
	}
	return out, nil
}

func indexOf(names []string, name string) int {
	for i, n := range names {
		if n == name {
			return i
		}
	}
	return -1
}

func absent(v any) bool {
	_, is := v.(absentArg)
	return is
}

// strArg, intArg and boolArg read an argument that has a default.
func strArg(v any, def string) (string, error) {
	if absent(v) {
		return def, nil
	}
	s, ok := textOf(v)
	if !ok {
		return "", fmt.Errorf("a string is needed, not a %s", typeName(v))
	}
	return s, nil
}

func intArg(v any, def int) (int, error) {
	if absent(v) {
		return def, nil
	}
	_, isInt, i, ok := number(v)
	if !ok || !isInt {
		return 0, fmt.Errorf("an integer is needed, not a %s", typeName(v))
	}
	return int(min(max(i, -1<<40), 1<<40)), nil
}

func boolArg(v any, def bool) bool {
	if absent(v) {
		return def
	}
	return truth(v)
}
