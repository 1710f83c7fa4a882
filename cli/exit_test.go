package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/torch"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestCodeOf(t *testing.T) {
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	tests := []struct {
		name string
		ctx  context.Context
		err  error
		want ExitCode
	}{
		{"nil", t.Context(), nil, ExitOK},
		{"plain", t.Context(), errors.New("x"), ExitInternal},
		{"with code", t.Context(), fmt.Errorf("load: %w", errWith(ExitModel, "hint", errors.New("x"))), ExitModel},
		{"faults", t.Context(), configs.Faults{{Msg: "x"}}, ExitInput},
		{"environment", t.Context(), fmt.Errorf("play: %w", &env.Error{Op: "reset"}), ExitEnv},
		{"servers", t.Context(), fmt.Errorf("play: %w", &env.DownError{Err: errors.New("x")}), ExitEnv},
		{"another environment", t.Context(), fmt.Errorf("play: %w", &env.OtherEnvError{Env: "weather", Other: "movie"}), ExitEnv},
		{"native", t.Context(), fmt.Errorf("step 3: %w", &torch.Error{Op: "matmul"}), ExitNative},
		{"cancelled by a signal", ended, fmt.Errorf("step: %w", context.Canceled), ExitInterrupted},
		{"cancelled by us", t.Context(), context.Canceled, ExitInternal},
		{"failed while a signal came", ended, errWith(ExitDisk, "", errors.New("full")), ExitDisk},
		{"interrupted", t.Context(), fmt.Errorf("saved: %w", errInterrupted), ExitInterrupted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := codeOf(tt.ctx, tt.err); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestErrWith(t *testing.T) {
	if errWith(ExitDisk, "hint", nil) != nil {
		t.Error("no error became one")
	}
	cause := errors.New("open x: gone")
	err := errWith(ExitInput, "give another", cause)
	if err.Error() != "open x: gone: give another" || !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
}

func TestReportPrefixesEveryLine(t *testing.T) {
	ts := newTestState(t)
	report(ts.State, errors.New("one\ntwo\n"))
	if diff := cmp.Diff("openmanus: one\nopenmanus: two\n", ts.err.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestExitCodeDocumentation keeps docs/exit-codes.md equal to the code.
func TestExitCodeDocumentation(t *testing.T) {
	const path = "../docs/exit-codes.md"
	if *update {
		if err := os.WriteFile(path, []byte(exitDocs()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), exitDocs()); diff != "" {
		t.Errorf("out of date: run go test ./cli -update (-want +got):\n%s", diff)
	}
}

// brokenPipe fails every write, as a closed pipe does.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

type panics struct{}

func (panics) Write([]byte) (int, error) { panic("a fault") }

func TestMainCodes(t *testing.T) {
	ts := newTestState(t, "version")
	ts.Stdout = brokenPipe{}
	if code := Main(ts.State); code != int(ExitDisk) {
		t.Errorf("exit code %d where standard output is closed", code)
	}
	ts = newTestState(t, "version")
	ts.Stdout = panics{}
	if code := Main(ts.State); code != int(ExitInternal) || !strings.Contains(ts.err.String(), "please report it: a fault") {
		t.Errorf("exit code %d after a panic, %q", code, ts.err)
	}
}
