package algo

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/rundir/checkpoint"
	"github.com/openmanus/openmanus/algo/track"
)

// result is the output of a run: metrics without times, final weights, names of the files of episodes, and labels of the validations.
type result struct {
	Metrics  []map[string]float64
	Weights  []byte
	Rollouts []string
	Labels   []string
}

func (r *rig) result(t *testing.T) result {
	t.Helper()
	var out result
	run := &rundir.Folder{Dir: r.dir}
	must(t, track.Read(run.Metrics(), func(l track.Line) error {
		m := maps.Clone(l.Metrics)
		for name := range m {
			if strings.Contains(name, "timing_") || strings.HasPrefix(name, "perf/") || strings.HasPrefix(name, "servers/") || strings.Contains(name, "_ms/") {
				delete(m, name)
			}
		}
		m["step"] = float64(l.Step)
		out.Metrics = append(out.Metrics, m)
		return nil
	}))
	c, _, err := checkpoint.Latest(t.Context(), run.Checkpoints())
	must(t, err)
	out.Weights, err = os.ReadFile(filepath.Join(c.File(rundir.ActorFolder), "model.safetensors"))
	must(t, err)
	entries, err := os.ReadDir(run.Rollouts())
	must(t, err)
	for _, e := range entries {
		out.Rollouts = append(out.Rollouts, e.Name())
	}
	st, err := rundir.ReadState(c.Path)
	must(t, err)
	for _, v := range st.Validations {
		out.Labels = append(out.Labels, v.Label)
	}
	if !st.Finished {
		t.Errorf("the run ended at step %d and is not finished", st.Step)
	}
	return out
}

// undisturbedResults caches the results of undisturbed runs by kind.
var undisturbedResults = struct {
	sync.Mutex
	of map[[2]bool]result
}{of: map[[2]bool]result{}}

// sameAsUndisturbed compares a finished run with an undisturbed one.
func (r *rig) sameAsUndisturbed(t *testing.T) {
	t.Helper()
	undisturbedResults.Lock()
	defer undisturbedResults.Unlock()
	kind := [2]bool{r.supervised, r.reference}
	want, ok := undisturbedResults.of[kind]
	if !ok {
		quiet := newRig(t)
		quiet.supervised, quiet.reference = r.supervised, r.reference
		must(t, quiet.fit(t, t.Context(), t.Context()))
		want = quiet.result(t)
		undisturbedResults.of[kind] = want
	}
	got := r.result(t)
	if d := cmp.Diff(want.Metrics, got.Metrics); d != "" {
		t.Errorf("the metrics differ from an undisturbed run:\n%s", d)
	}
	if !bytes.Equal(want.Weights, got.Weights) {
		t.Error("the weights differ from an undisturbed run")
	}
	if d := cmp.Diff(want.Rollouts, got.Rollouts); d != "" {
		t.Errorf("the files of episodes differ from an undisturbed run:\n%s", d)
	}
	if d := cmp.Diff(want.Labels, got.Labels); d != "" {
		t.Errorf("the validations differ from an undisturbed run:\n%s", d)
	}
}
