package algo

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBest(t *testing.T) {
	v := func(label string, step int, maze, mazes, wordle, wordles float64) Validation {
		return Validation{Label: label, Step: step, Metrics: Metrics{
			"val/maze/success_rate": maze, "val/maze/episodes": mazes, "val/maze/mean_score": 1 - maze,
			"val/wordle/success_rate": wordle, "val/wordle/episodes": wordles,
		}}
	}
	tr := &Trainer{o: Options{BestMetric: "success_rate"}}
	for _, c := range []struct {
		v    Validation
		want *Best
	}{
		{v(LabelUntrained, 0, 1, 10, 1, 10), nil}, // no checkpoint of those weights
		{Validation{Step: 0, Metrics: Metrics{"val/maze/episodes": 0}}, nil},
		{v(LabelBefore, 0, .5, 10, 0, 30), &Best{"success_rate", .125, 0}},
		{v("step 2", 2, .25, 20, .25, 20), &Best{"success_rate", .25, 2}},
		{v("step 4", 4, .25, 20, .25, 20), &Best{"success_rate", .25, 2}}, // the earlier of equals
		{v("step 6", 6, 0, 10, 0, 10), &Best{"success_rate", .25, 2}},
		{v(LabelAfter, 8, 1, 10, 0, 0), &Best{"success_rate", 1, 8}},
	} {
		tr.state.Step = c.v.Step
		tr.rate(c.v)
		if d := cmp.Diff(c.want, tr.state.Best); d != "" {
			t.Errorf("after %q:\n%s", c.v.Label, d)
		}
		if want := c.want != nil && c.want.Step == c.v.Step; tr.bestNow() != want {
			t.Errorf("after %q: best now is %v", c.v.Label, !want)
		}
	}
	tr.o.BestMetric = "mean_score" // another yardstick begins anew
	tr.rate(v("step 10", 10, .75, 10, 0, 0))
	if d := cmp.Diff(&Best{"mean_score", .25, 10}, tr.state.Best); d != "" {
		t.Errorf("by another metric:\n%s", d)
	}
	tr.o.BestMetric = "loss" // of which less is better
	for step, loss := range []float64{2, 1, math.NaN(), 1.5, 1} {
		tr.rate(Validation{Step: step, Metrics: Metrics{"val/loss": loss}})
	}
	if d := cmp.Diff(&Best{"loss", 1, 1}, tr.state.Best); d != "" {
		t.Errorf("by the loss:\n%s", d)
	}
	if err := checkBestMetric("reward"); err == nil || !strings.Contains(err.Error(), "success_rate, mean_score, loss") {
		t.Errorf("error %v", err)
	}
}

// TestBestIsKept: the best checkpoint outlives newer ones, whatever the
// cadence of saving, and the link leads to it.
func TestBestIsKept(t *testing.T) {
	r := newRig(t)
	r.keep, r.steps = 1, 4
	must(t, r.fit(t, t.Context(), t.Context()))
	run := &RunFolder{Dir: r.dir}
	st, err := ReadState(filepath.Join(run.Checkpoints(), "step_000004"))
	must(t, err)
	if st.Best == nil {
		t.Fatal("no validation was rated")
	}
	best, err := ReadState(run.Best())
	must(t, err)
	if best.Step != st.Best.Step {
		t.Errorf("the link leads to step %d, the best is %+v", best.Step, st.Best)
	}
	left, err := os.ReadDir(run.Checkpoints())
	must(t, err)
	if want := map[bool]int{true: 1, false: 2}[st.Best.Step == 4]; len(left) != want {
		t.Errorf("%d checkpoints are left, want %d", len(left), want)
	}
}

// The weights before supervised training are rated, so there is a checkpoint of
// them, which is kept as long as they are the best; one that is not there any
// more is the best of nothing.
func TestBestIsThere(t *testing.T) {
	r := newRig(t)
	r.supervised, r.keep = true, 1
	must(t, r.fit(t, t.Context(), t.Context()))
	run := &RunFolder{Dir: r.dir}
	newest, err := ReadState(run.Latest())
	must(t, err)
	best, err := ReadState(run.Best())
	if err != nil || newest.Best == nil || best.Step != newest.Best.Step {
		t.Fatalf("best leads to %+v (%v), want %+v", best, err, newest.Best)
	}

	r = newRig(t)
	must(t, r.fit(t, t.Context(), t.Context()))
	run = &RunFolder{Dir: r.dir}
	was, err := filepath.EvalSymlinks(run.Best())
	must(t, err)
	must(t, os.RemoveAll(was))
	r.steps += 2
	must(t, r.fit(t, t.Context(), t.Context()))
	if best, err = ReadState(run.Best()); err != nil || best.Step <= 3 {
		t.Errorf("after %s was lost best leads to %+v (%v)", filepath.Base(was), best, err)
	}
}
