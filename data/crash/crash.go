// Package crash declares points, between two writes that belong together, at which a
// process crashes on request. If its environment contains one of
//
//	OPENMANUS_CRASH_AT=checkpoint/rename
//	OPENMANUS_CRASH_AT=checkpoint/rename:3
//
// a process kills itself with SIGKILL when it passes the point checkpoint/rename: with
// the first line at the first passage, with the second line at the third. Tests crash
// a run at every point and resume it; users can do the same with their runs.
//
// Points are package variables, so that All lists all points of the program. Several
// goroutines may call the methods of a point.
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

// Variable is the environment variable that names the point to crash at.
const Variable = "OPENMANUS_CRASH_AT"

// Point is a named place in the program at which a process can crash.
type Point struct{ name string }

var (
	mu     sync.Mutex
	points []string       // guarded by mu
	passed map[string]int // how often each point was passed; guarded by mu
	trace  func(string)   // guarded by mu
)

// New declares a point. It panics if the name is taken or invalid.
func New(name string) Point {
	mu.Lock()
	defer mu.Unlock()
	if name == "" || strings.Contains(name, ":") || slices.Contains(points, name) {
		panic("crash: the point " + strconv.Quote(name) + " has an invalid name or one that is taken")
	}
	points = append(points, name)
	return Point{name}
}

// All returns the names of all points, sorted.
func All() []string {
	mu.Lock()
	defer mu.Unlock()
	return slices.Sorted(slices.Values(points))
}

// Trace calls f with the name of every point that is passed from now on; nil ends
// the trace. It is for tests.
func Trace(f func(name string)) {
	mu.Lock()
	defer mu.Unlock()
	trace = f
}

// Pass counts a passage of the point and kills the process if Variable names this passage.
func (p Point) Pass() { p.PassAfter(func() {}) }

// PassAfter does the same as Pass, but calls the function half before it kills
// the process. It is for crashes in the middle of a write.
func (p Point) PassAfter(half func()) {
	if p.here() {
		half()
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until the signal arrives
	}
}

// here counts a passage and reports whether the process must crash.
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

// Check returns an error if OPENMANUS_CRASH_AT is malformed or names an unknown point.
func Check() error {
	name, _, err := target()
	if err != nil {
		return err
	}
	if all := All(); name != "" && !slices.Contains(all, name) {
		return fmt.Errorf("%s: unknown point %q; use one of %s", Variable, name, strings.Join(all, ", "))
	}
	return nil
}

func target() (name string, nth int, err error) {
	name, count, counted := strings.Cut(os.Getenv(Variable), ":")
	if !counted {
		return name, 1, nil
	}
	if nth, err = strconv.Atoi(count); err != nil || nth < 1 {
		return "", 0, fmt.Errorf("%s: %q is not a count: write POINT or POINT:N with N at least 1", Variable, count)
	}
	return name, nth, nil
}
