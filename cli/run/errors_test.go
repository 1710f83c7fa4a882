package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/pool"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
)

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
		{"cancelled without a signal", t.Context(), context.Canceled, errext.Internal},
		{"failed after a signal", ended, errext.With(errext.Disk, "", errors.New("full")), errext.Disk},
		{"interrupted", t.Context(), fmt.Errorf("saved: %w", errext.ErrInterrupted), errext.Interrupted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := CodeOf(tt.ctx, tt.err); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

// TestTrainError checks that every error that ends a run early has an exit code and a
// hint.
func TestTrainError(t *testing.T) {
	full := fmt.Errorf("write metrics: %w", &fs.PathError{Op: "write", Path: "metrics.jsonl", Err: syscall.ENOSPC})
	for _, c := range []struct {
		name string
		err  error
		want errext.ExitCode
		hint string
	}{
		{"interrupted", fmt.Errorf("step 3: %w", algo.ErrInterrupted), errext.Interrupted, "run the same command to resume"},
		{"disk", full, errext.Disk, "make room"},
		{"interrupted, but not saved", errors.Join(algo.ErrInterrupted, full), errext.Disk, "make room"},
		{"servers", fmt.Errorf("step 3: rollout: %w", &rollout.FailedError{Outcome: data.EnvError, Failed: 4, Total: 4}), errext.Env, "restart the servers"},
		{"servers down", fmt.Errorf("step 3: rollout: %w", &pool.DownError{Err: errors.New("x")}), errext.Env, "restart the servers"},
		{"engine", fmt.Errorf("step 3: rollout: %w", &rollout.FailedError{Outcome: data.EngineError, Failed: 4, Total: 4}), errext.Native, ""},
		{"native", fmt.Errorf("step 3: %w", &torch.Error{Op: "matmul", Msg: "no kernel"}), errext.Native, "run the same command"},
		{"GPU memory", fmt.Errorf("step 3: %w", &torch.Error{Op: "matmul", Msg: "CUDA out of memory. Tried to allocate 2 GiB"}), errext.Native, "rollout.gpu_memory_utilization"},
		{"host memory", fmt.Errorf("step 3: %w", &torch.Error{Op: "matmul", Msg: "DefaultCPUAllocator: can't allocate memory"}), errext.Native, "lower actor.max_tokens_per_micro_batch"},
		{"diverged", fmt.Errorf("step 3: %w", &learner.DivergedError{Steps: 3, Last: &learner.NotFiniteError{What: "loss"}}), errext.Diverged, "the last checkpoint"},
		{"not finite", fmt.Errorf("validation (after): %w", &learner.NotFiniteError{What: "loss of the validation"}), errext.Diverged, "lower the learning rate"},
		{"gap", &algo.GapError{}, errext.Check, ""},
		{"prompt", fmt.Errorf("step 1: %w", &agent.PromptError{Key: agent.MaxPromptKey}), errext.Input, "raise data.max_prompt_tokens"},
		{"context", fmt.Errorf("step 1: %w", &agent.PromptError{Key: agent.MaxContextKey}), errext.Input, "raise rollout.max_context_tokens"},
		{"unknown", errors.New("?"), errext.Internal, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := trainError(&runFolder{Folder: &rundir.Folder{Dir: "run"}}, c.err)
			if got := CodeOf(t.Context(), err); got != c.want || !strings.Contains(err.Error(), c.hint) {
				t.Errorf("exit code %d, %q; want %d, %q", got, err, c.want, c.hint)
			}
		})
	}
}

// TestReadingError checks that errors of the pretraining on random walks have the exit
// codes of other training errors, and that divergence has a hint for the pretraining.
func TestReadingError(t *testing.T) {
	for want, err := range map[errext.ExitCode]error{
		errext.Diverged: &learner.DivergedError{Steps: 3, Last: &learner.NotFiniteError{What: "loss"}},
		errext.Native:   &torch.Error{Op: "matmul", Msg: "out of memory"},
	} {
		got := readingError(&runFolder{}, fmt.Errorf("supervised step 4: %w", err))
		if CodeOf(t.Context(), got) != want || strings.Contains(got.Error(), "model.fresh.walk_lr") != (want == errext.Diverged) {
			t.Errorf("exit code %d, %q; want %d", CodeOf(t.Context(), got), got, want)
		}
	}
}
