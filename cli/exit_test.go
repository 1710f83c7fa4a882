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
	"github.com/openmanus/openmanus/env/pool"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestCodeOf(t *testing.T) {
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errext.ErrInterrupted)
	tests := []struct {
		name string
		ctx  context.Context
		err  error
		want errext.ExitCode
	}{
		{"nil", t.Context(), nil, errext.OK},
		{"plain", t.Context(), errors.New("x"), errext.Internal},
		{"with code", t.Context(), fmt.Errorf("load: %w", errext.With(errext.Model, "hint", errors.New("x"))), errext.Model},
		{"faults", t.Context(), configs.Faults{{Msg: "x"}}, errext.Input},
		{"environment", t.Context(), fmt.Errorf("play: %w", &env.Error{Op: "reset"}), errext.Env},
		{"servers", t.Context(), fmt.Errorf("play: %w", &pool.DownError{Err: errors.New("x")}), errext.Env},
		{"another environment", t.Context(), fmt.Errorf("play: %w", &env.OtherEnvError{Env: "weather", Other: "movie"}), errext.Env},
		{"native", t.Context(), fmt.Errorf("step 3: %w", &torch.Error{Op: "matmul"}), errext.Native},
		{"cancelled by a signal", ended, fmt.Errorf("step: %w", context.Canceled), errext.Interrupted},
		{"cancelled by us", t.Context(), context.Canceled, errext.Internal},
		{"failed while a signal came", ended, errext.With(errext.Disk, "", errors.New("full")), errext.Disk},
		{"interrupted", t.Context(), fmt.Errorf("saved: %w", errext.ErrInterrupted), errext.Interrupted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := codeOf(tt.ctx, tt.err); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
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
	if code := Main(ts.State); code != int(errext.Disk) {
		t.Errorf("exit code %d where standard output is closed", code)
	}
	ts = newTestState(t, "version")
	ts.Stdout = panics{}
	if code := Main(ts.State); code != int(errext.Internal) || !strings.Contains(ts.err.String(), "please report it: a fault") {
		t.Errorf("exit code %d after a panic, %q", code, ts.err)
	}
}
