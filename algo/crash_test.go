package algo

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/rundir/checkpoint"
	"github.com/openmanus/openmanus/data/crash"
)

// Environment variables of the process to kill: crashFolder is the run folder; if crashAside is set, the run first
// returns to step 1.
const (
	crashFolder = "OPENMANUS_TEST_CRASH_FOLDER"
	crashAside  = "OPENMANUS_TEST_CRASH_ASIDE"
)

// rare lists the crash points that only special runs pass, each with the case in which a run passes it.
var rare = []string{
	"checkpoint/clean",     // the previous process died while saving
	"checkpoint/set-aside", // the run returns to an older checkpoint
	"set-aside/metrics",
	"set-aside/rollouts",
}

// TestKilledAtEveryPoint kills a real process at every crash point. The run can be resumed from the files on disk,
// loses only the step in flight, and ends with the results of an undisturbed run.
func TestKilledAtEveryPoint(t *testing.T) {
	if dir := os.Getenv(crashFolder); dir != "" {
		dieIn(t, dir)
		return
	}
	if testing.Short() {
		t.Skip("slow: the test starts a process for every crash point")
	}
	quiet := crashRig(t)
	passages := map[string]int{}
	crash.Trace(func(name string) { passages[name]++ })
	err := quiet.fit(t, t.Context(), t.Context())
	crash.Trace(nil)
	must(t, err)

	for _, point := range crash.All() {
		n := passages[point]
		if slices.Contains(rare, point) {
			if n > 0 {
				t.Errorf("an ordinary run passes the crash point %s: remove the point from rare", point)
			}
			continue
		}
		if n == 0 {
			t.Errorf("an ordinary run does not pass the crash point %s", point)
			continue
		}
		// Kill in the middle of the run: every kind of save has happened and more will follow.
		at := fmt.Sprintf("%s:%d", point, (n+1)/2)
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			r := crashRig(t)
			die(t, r.dir, at)
			r.onlyStepInFlightLost(t)
			must(t, r.fit(t, t.Context(), t.Context()))
			r.sameAsUndisturbed(t)
		})
	}

	t.Run("killed again while cleaning up", func(t *testing.T) {
		t.Parallel()
		r := crashRig(t)
		die(t, r.dir, fmt.Sprintf("checkpoint/rename:%d", passages["checkpoint/rename"]/2+1))
		die(t, r.dir, "checkpoint/clean")
		r.onlyStepInFlightLost(t)
		must(t, r.fit(t, t.Context(), t.Context()))
		r.sameAsUndisturbed(t)
	})
	for _, at := range []string{"set-aside/metrics", "set-aside/rollouts", "checkpoint/set-aside:1", "checkpoint/set-aside:2"} {
		t.Run("killed while returning to step 1, "+at, func(t *testing.T) {
			t.Parallel()
			r := crashRig(t)
			r.keep = 0 // 0 keeps all checkpoints, including the checkpoint of step 1
			must(t, r.fit(t, t.Context(), t.Context()))
			want := r.result(t).Weights
			die(t, r.dir, at, crashAside+"=1")
			must(t, r.fit(t, t.Context(), t.Context()))
			if !bytes.Equal(r.result(t).Weights, want) {
				t.Error("the weights differ from the weights before the return to step 1")
			}
		})
	}
}

// crashRig returns the run to kill, which writes every kind of file.
func crashRig(t *testing.T) *rig {
	r := newRig(t)
	r.reference = true
	return r
}

// dieIn runs in the process to kill.
func dieIn(t *testing.T, dir string) {
	r := crashRig(t)
	r.dir = dir
	if os.Getenv(crashAside) != "" {
		_, _, err := (&rundir.Folder{Dir: dir}).SetAside(1)
		must(t, err)
	}
	must(t, r.fit(t, t.Context(), t.Context()))
	t.Error("the run was not killed")
}

// die starts a process that trains in dir and is killed at a crash point.
func die(t *testing.T, dir, at string, env ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestKilledAtEveryPoint$")
	// The killed process cannot remove its temporary files. They are deleted with the files of this test.
	cmd.Env = append(append(os.Environ(), crashFolder+"="+dir, crash.Variable+"="+at, "TMPDIR="+t.TempDir()), env...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the process did not die at %s: %v\n%s", at, err, out)
	}
}

// onlyStepInFlightLost checks that the newest checkpoint is at most one step behind the last step with episodes
// on disk. The run saves after every step.
func (r *rig) onlyStepInFlightLost(t *testing.T) {
	t.Helper()
	run := &rundir.Folder{Dir: r.dir}
	begun := 0
	files, err := filepath.Glob(filepath.Join(run.Rollouts(), "step_*"))
	must(t, err)
	for _, f := range files {
		if n, ok := rundir.RolloutStep(strings.TrimSuffix(filepath.Base(f), ".tmp")); ok {
			begun = max(begun, n)
		}
	}
	_, err = checkpoint.Clean(run.Checkpoints())
	must(t, err)
	c, refused, err := checkpoint.Latest(t.Context(), run.Checkpoints())
	if len(refused) > 0 {
		t.Errorf("damaged checkpoints: %v, want none", refused)
	}
	switch {
	case errors.Is(err, checkpoint.ErrNone) && begun == 0: // the run was killed before the first save
	case err != nil:
		t.Error(err)
	case c.Step < begun-1:
		t.Errorf("step %d began, but the newest checkpoint is of step %d: more than one step is lost", begun, c.Step)
	}
}
