// Package crash names the moments of a run at which dying would hurt most:
// between two writes that belong together. A process whose environment has
//
//	OPENMANUS_CRASH_AT=checkpoint/rename      or, its third passage, checkpoint/rename:3
//
// is killed there as kill -9 does it, without a chance to clean up. Tests kill
// a run at every point and let it go on; anybody can do the same to theirs.
//
// Points are declared as package variables, so that All lists every one that
// the program has. Any goroutine may pass one.
package crash

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Variable is the environment variable that names the point to die at.
const Variable = "OPENMANUS_CRASH_AT"

// Point is a named moment.
type Point struct{ name string }

var (
	mu     sync.Mutex
	points []string       // guarded by mu
	passed map[string]int // passages of each point, guarded by mu
	trace  func(string)   // guarded by mu
)

// New declares a point. A name is declared once.
func New(name string) Point {
	mu.Lock()
	defer mu.Unlock()
	if name == "" || strings.Contains(name, ":") || slices.Contains(points, name) {
		panic("crash: the point " + strconv.Quote(name) + " has no usable name, or that of another")
	}
	points = append(points, name)
	return Point{name}
}

// All lists the points of the program by name.
func All() []string {
	mu.Lock()
	defer mu.Unlock()
	return slices.Sorted(slices.Values(points))
}

// Trace calls f with the name of every point that is passed from now on; nil
// ends it. It is for tests that want to know where a run comes by.
func Trace(f func(name string)) {
	mu.Lock()
	defer mu.Unlock()
	trace = f
}

// Pass goes by the point, or dies there.
func (p Point) Pass() { p.PassAfter(func() {}) }

// PassAfter goes by the point. Where the process is to die there it first
// does half of what comes next.
func (p Point) PassAfter(half func()) {
	if p.here() {
		half()
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
}

// here counts a passage and reports whether it is the last.
func (p Point) here() bool {
	mu.Lock()
	defer mu.Unlock()
	if trace != nil {
		trace(p.name)
	}
	name, nth, err := target()
	if err != nil || name != p.name {
		return false
	}
	if passed == nil {
		passed = map[string]int{}
	}
	passed[name]++
	return passed[name] == nth
}

// Check refuses a value of the variable that names no point.
func Check() error {
	name, _, err := target()
	if err != nil {
		return err
	}
	if all := All(); name != "" && !slices.Contains(all, name) {
		return fmt.Errorf("%s: there is no point %q; there are %s", Variable, name, strings.Join(all, ", "))
	}
	return nil
}

func target() (name string, nth int, err error) {
	name, count, counted := strings.Cut(os.Getenv(Variable), ":")
	if !counted {
		return name, 1, nil
	}
	if nth, err = strconv.Atoi(count); err != nil || nth < 1 {
		return "", 0, fmt.Errorf("%s: %q is no number of a passage: write POINT or POINT:N with N from 1", Variable, count)
	}
	return name, nth, nil
}
