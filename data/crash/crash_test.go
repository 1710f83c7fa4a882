package crash

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
)

var first, second = New("test/first"), New("test/second")

// TestPass checks that the process is killed at the chosen passage of the
// chosen point, after the first half of a write, and at no other time.
func TestPass(t *testing.T) {
	const half = "done by half"
	if os.Getenv(Variable) != "" {
		for range 3 {
			first.Pass()
			second.PassAfter(func() { os.Stdout.WriteString(half) })
			os.Stdout.WriteString("passed ")
		}
		return
	}
	for _, c := range []struct {
		at, want string
		dies     bool
	}{
		{"test/first", "", true},
		{"test/first:3", "passed passed ", true},
		{"test/second:2", "passed " + half, true},
		{"test/second:4", "passed passed passed PASS", false},
		{"nowhere", "passed passed passed PASS", false},
	} {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestPass$")
		cmd.Env = append(os.Environ(), Variable+"="+c.at)
		out, err := cmd.Output()
		var exit *exec.ExitError
		killed := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
		if killed != c.dies || !c.dies && err != nil || !strings.HasPrefix(string(out), c.want) || c.dies && string(out) != c.want {
			t.Errorf("%s: %v, wrote %q, want %q", c.at, err, out, c.want)
		}
	}
}

func TestCheck(t *testing.T) {
	for value, want := range map[string]string{
		"": "", "test/first": "", "test/second:7": "", "test/third": "test/first, test/second", "test/first:0": "not a count", "test/first:x": "not a count",
	} {
		t.Setenv(Variable, value)
		err := Check()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", value, err, want)
		}
	}
}

func TestTrace(t *testing.T) {
	var got []string
	Trace(func(name string) { got = append(got, name) })
	second.Pass()
	first.Pass()
	Trace(nil)
	first.Pass()
	if want := []string{"test/second", "test/first"}; !slices.Equal(got, want) {
		t.Errorf("passed %v, want %v", got, want)
	}
	if got := All(); !slices.Equal(got, []string{"test/first", "test/second"}) {
		t.Errorf("all: %v", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("New accepted the name of an existing point")
		}
	}()
	New("test/first")
}
