package algo

import (
	"github.com/openmanus/openmanus/algo/rundir"
	"os"
	"path/filepath"
	"testing"
)

// TestBestIsKept checks that the best checkpoint is kept when newer ones are pruned, with any save
// interval, and that the link points to it.
func TestBestIsKept(t *testing.T) {
	r := newRig(t)
	r.keep, r.steps = 1, 4
	must(t, r.fit(t, t.Context(), t.Context()))
	run := &rundir.Folder{Dir: r.dir}
	st, err := rundir.ReadState(filepath.Join(run.Checkpoints(), "step_000004"))
	must(t, err)
	if st.Best == nil {
		t.Fatal("the state has no best checkpoint")
	}
	best, err := rundir.ReadState(run.Best())
	must(t, err)
	if best.Step != st.Best.Step {
		t.Errorf("the link best points to step %d, want %+v", best.Step, st.Best)
	}
	left, err := os.ReadDir(run.Checkpoints())
	must(t, err)
	if want := map[bool]int{true: 1, false: 2}[st.Best.Step == 4]; len(left) != want {
		t.Errorf("%d checkpoints are left, want %d", len(left), want)
	}
}

// TestBestBeforeTraining checks that the weights before supervised training are validated and
// saved, and that their checkpoint is kept while it is the best. If the best checkpoint was
// deleted, the next checkpoint becomes the best.
func TestBestBeforeTraining(t *testing.T) {
	r := newRig(t)
	r.supervised, r.keep = true, 1
	must(t, r.fit(t, t.Context(), t.Context()))
	run := &rundir.Folder{Dir: r.dir}
	newest, err := rundir.ReadState(run.Latest())
	must(t, err)
	best, err := rundir.ReadState(run.Best())
	if err != nil || newest.Best == nil || best.Step != newest.Best.Step {
		t.Fatalf("the link best points to %+v (error %v), want %+v", best, err, newest.Best)
	}

	r = newRig(t)
	must(t, r.fit(t, t.Context(), t.Context()))
	run = &rundir.Folder{Dir: r.dir}
	was, err := filepath.EvalSymlinks(run.Best())
	must(t, err)
	must(t, os.RemoveAll(was))
	r.steps += 2
	must(t, r.fit(t, t.Context(), t.Context()))
	if best, err = rundir.ReadState(run.Best()); err != nil || best.Step <= 3 {
		t.Errorf("after the deletion of %s the link best points to %+v (error %v), want a later step", filepath.Base(was), best, err)
	}
}
