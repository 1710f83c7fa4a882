package algo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/rundir/checkpoint"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/env/pool"
)

var errFull = &os.PathError{Op: "write", Path: "somewhere", Err: syscall.ENOSPC}

// TestFaults checks that a run with a fault ends with an error that names the fault, and that the
// restarted run ends with the results of an undisturbed run.
func TestFaults(t *testing.T) {
	noServer := func(err error) bool {
		var down *pool.DownError
		return errors.As(err, &down)
	}
	for _, c := range []struct {
		name    string
		disturb func(t *testing.T, r *rig, stop context.CancelFunc)
		is      func(error) bool
		words   string
		saved   int // step of the newest checkpoint after the fault
	}{
		{
			name: "the disk is full for the metrics of a step",
			disturb: func(_ *testing.T, r *rig, _ context.CancelFunc) {
				r.onWrite = func(l track.Line) error {
					if isStep(l, 2) {
						return errFull
					}
					return nil
				}
			},
			is: IsDiskError, words: "step 2: write metrics", saved: 2,
		},
		{
			name: "the disk is full for the metrics and for the checkpoint",
			disturb: func(_ *testing.T, r *rig, _ context.CancelFunc) {
				full := false
				r.onWrite = func(l track.Line) error {
					if full = full || isStep(l, 2); full {
						return errFull
					}
					return nil
				}
				r.onSave = func() error {
					if full {
						return errFull
					}
					return nil
				}
			},
			is: IsDiskError, words: "saving step 2 after this error", saved: 1,
		},
		{
			name: "the disk is full for a checkpoint",
			disturb: func(_ *testing.T, r *rig, _ context.CancelFunc) {
				saves := 0
				r.onSave = func() error {
					if saves++; saves >= 4 { // earlier saves: after the warm start, after its validation, and after step 1
						return errFull
					}
					return nil
				}
			},
			is: IsDiskError, words: "save checkpoint of step 2", saved: 1,
		},
		{
			name: "the disk is full for the metrics of the warm start",
			disturb: func(_ *testing.T, r *rig, _ context.CancelFunc) {
				r.onWrite = func(l track.Line) error {
					if l.Phase == track.PhaseSFT && l.Step == 4 {
						return errFull
					}
					return nil
				}
			},
			is: IsDiskError, words: "write metrics", saved: 0,
		},
		{
			name: "the episodes of a step cannot be written",
			disturb: func(t *testing.T, r *rig, _ context.CancelFunc) {
				// The path of the file is a folder until the run is started again.
				folder := filepath.Join(r.dir, "rollouts", "step_2.jsonl")
				must(t, os.MkdirAll(folder, 0o755))
				r.repair = func() { must(t, os.Remove(folder)) }
			},
			is: IsDiskError, words: "step 2: write rollouts", saved: 1,
		},
		{
			name: "the server dies while a step is played",
			disturb: func(_ *testing.T, r *rig, _ context.CancelFunc) {
				var started atomic.Bool
				r.onStep = func(step int) { started.Store(started.Load() || step == 1) }
				var dead atomic.Bool
				r.onRequest = func(path string, _ []byte) bool {
					dead.Store(dead.Load() || started.Load() && strings.HasSuffix(path, "/step"))
					return !dead.Load()
				}
			},
			is: noServer, words: "step 2: rollout: environment maze: no server answered", saved: 1,
		},
		{
			name: "the server dies in the validation after a step",
			// Validations run before training and after step 2, two episodes each; the last episode fails.
			disturb: func(_ *testing.T, r *rig, _ context.CancelFunc) { r.dieInValidation(6) },
			is:      noServer, words: "step 2: validation (step 2)", saved: 2,
		},
		{
			name:    "the server dies in the validation before the first step",
			disturb: func(_ *testing.T, r *rig, _ context.CancelFunc) { r.dieInValidation(3) },
			is:      noServer, words: "validation (before)", saved: 0,
		},
		{
			name: "Ctrl-C in a validation",
			disturb: func(_ *testing.T, r *rig, stop context.CancelFunc) {
				var validations atomic.Int32
				r.onRequest = func(path string, body []byte) bool {
					if validates(path, body) && validations.Add(1) == 5 {
						stop()
					}
					return true
				}
			},
			is: func(err error) bool { return errors.Is(err, ErrInterrupted) }, saved: 2,
		},
		{
			name: "Ctrl-C in the warm start",
			disturb: func(_ *testing.T, r *rig, stop context.CancelFunc) {
				r.onWrite = func(l track.Line) error {
					if l.Phase == track.PhaseSFT && l.Step == 4 {
						stop()
					}
					return nil
				}
			},
			is: func(err error) bool { return errors.Is(err, ErrInterrupted) }, saved: 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			soft, stop := context.WithCancel(t.Context())
			defer stop()
			c.disturb(t, r, stop)
			err := r.fit(t, t.Context(), soft)
			if err == nil || !c.is(err) || !strings.Contains(err.Error(), c.words) {
				t.Fatalf("got %v, want %q", err, c.words)
			}
			run := &rundir.Folder{Dir: r.dir}
			found, _, err := checkpoint.Latest(t.Context(), run.Checkpoints())
			if err != nil || found.Step != c.saved {
				t.Fatalf("the newest checkpoint is %+v (error %v), want step %d", found, err, c.saved)
			}
			if names, err := filepath.Glob(filepath.Join(run.Checkpoints(), "*.tmp")); err != nil || len(names) > 0 {
				t.Errorf("temporary files were left: %v (error %v)", names, err)
			}
			r.undisturbed()
			must(t, r.fit(t, t.Context(), t.Context()))
			r.sameAsUndisturbed(t)
		})
	}
}

// TestInterruptedValidationIsNoResult checks that an interrupted validation leaves no result: no
// metrics line, no episodes, no table row.
func TestInterruptedValidationIsNoResult(t *testing.T) {
	r := newRig(t)
	soft, stop := context.WithCancel(t.Context())
	defer stop()
	r.onRequest = func(path string, body []byte) bool {
		if validates(path, body) {
			stop() // stop in the first validation
		}
		return true
	}
	if err := r.fit(t, t.Context(), soft); !errors.Is(err, ErrInterrupted) {
		t.Fatalf("got %v", err)
	}
	text, err := os.ReadFile(filepath.Join(r.dir, "metrics.jsonl"))
	if err != nil || len(text) > 0 {
		t.Errorf("metrics were written: %q (error %v)", text, err)
	}
	entries, err := os.ReadDir(filepath.Join(r.dir, "rollouts"))
	if err != nil || len(entries) > 0 {
		t.Errorf("episodes were written: %v (error %v)", entries, err)
	}
}

// TestKilled checks that a run killed at any place and started again ends with
// the results of an undisturbed run. Cancelling the hard context ends the
// trainer without a save, as kill -9 does.
func TestKilled(t *testing.T) {
	for _, c := range []struct {
		name       string
		supervised bool
		at         track.Line
	}{
		{"in the warm start", false, track.Line{Phase: track.PhaseSFT, Step: 5}},
		{"in the first step", false, track.Line{Phase: track.PhaseTrain, Step: 1}},
		{"after the last step", false, track.Line{Phase: track.PhaseTrain, Step: 3}},
		{"in supervised training", true, track.Line{Phase: track.PhaseTrain, Step: 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.supervised = c.supervised
			r.saveAfter = time.Nanosecond
			hard, kill := context.WithCancel(t.Context())
			defer kill()
			r.onWrite = func(l track.Line) error {
				if l.Phase == c.at.Phase && l.Step == c.at.Step {
					kill()
				}
				return hard.Err()
			}
			if err := r.fit(t, hard, hard); err == nil {
				t.Fatal("the run was not killed")
			}
			found, _, err := checkpoint.Latest(t.Context(), (&rundir.Folder{Dir: r.dir}).Checkpoints())
			if err != nil {
				t.Fatalf("no checkpoint to resume: %v", err)
			}
			st, err := rundir.ReadState(found.Path)
			must(t, err)
			if c.name == "in the warm start" && st.WarmSteps != 4 {
				t.Errorf("%d steps of the warm start are saved, want 4", st.WarmSteps)
			}
			r.undisturbed()
			must(t, r.fit(t, t.Context(), t.Context()))
			r.sameAsUndisturbed(t)
		})
	}
}
