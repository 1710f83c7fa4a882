package cli

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// leakChecked fails the run if tensors or goroutines remain after the tests.
type leakChecked struct{ *testing.M }

// Run runs the tests.
func (l leakChecked) Run() int {
	// A second thread makes the tests slower if the cores are busy. Processes that the tests start read the variable.
	torch.SetNumThreads(1)
	if err := os.Setenv("OMP_NUM_THREADS", "1"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return torchtest.Check(l.M.Run())
}

// TestMain runs the tests, or the program if the test binary was started as openmanus. Scripts run it with exec if they
// need a process (a server, a signal).
func TestMain(m *testing.M) {
	if code, ok := Watchdog(NewState()); ok {
		os.Exit(code)
	}
	if len(os.Args) > 2 && os.Args[1] == "fake-uvicorn" {
		fakeUvicorn(os.Args[2:])
		os.Exit(0)
	}
	testscript.Main(leakChecked{m}, map[string]func(){
		"openmanus": func() { s := NewState(); s.Exit(Main(s)) },
	})
}

// TestScripts runs testdata/script/*.txtar. `exits CODE ARGS...` runs a command line in-process and checks the exit
// code; stdout and stderr are then checked as after exec.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HF_HUB_OFFLINE", "1")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
		},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: exits CODE [ARGS...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := Main(&State{
		Args: append([]string{"openmanus"}, args[1:]...),
		Host: run.Host{
			Getenv:  ts.Getenv,
			Environ: func() []string { return []string{"PATH=" + ts.Getenv("PATH")} },
			Dir:     ts.Getenv("WORK"),
			Stdin:   strings.NewReader(""),
			Now:     time.Now,
		},
		Stdout: ts.Stdout(),
		Stderr: ts.Stderr(),
		Notify: func(chan<- Signal) func() { return func() {} },
		Exit:   func(code int) { ts.Fatalf("the process ended with %d", code) },
	})
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}
