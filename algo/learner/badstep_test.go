package learner

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/optim"
)

// faulty lists the causes of a non-finite step.
var faulty = []struct {
	name  string
	words string
	spoil func(a *Actor) func(torch.Tensor) torch.Tensor
}{
	{"loss NaN", "the loss is NaN", func(*Actor) func(torch.Tensor) torch.Tensor {
		return func(l torch.Tensor) torch.Tensor { return l.MulScalar(math.NaN()) }
	}},
	{"loss infinite", "the loss is +Inf", func(*Actor) func(torch.Tensor) torch.Tensor {
		return func(l torch.Tensor) torch.Tensor { return l.Square().AddScalar(1).MulScalar(math.Inf(1)) }
	}},
	{"gradient infinite", "model.norm.weight", func(a *Actor) func(torch.Tensor) torch.Tensor {
		return func(l torch.Tensor) torch.Tensor { // √x is finite at 0, its derivative is not
			w := a.master.Norm.Weight
			return l.Add(w.Sub(w.Detach()).Sqrt().Sum())
		}
	}},
}

// TestBadStepsAreSkipped checks that a non-finite step changes neither weights nor moments and is
// reported. The third in a row ends the run; a finite step resets the count.
func TestBadStepsAreSkipped(t *testing.T) {
	o := vanillaOptions()
	o.MiniBatch, o.Micro = 4, MicroBatching{Rows: 2}
	for _, c := range faulty {
		t.Run(c.name, func(t *testing.T) {
			a := testActor(t, torch.Float32)
			var kept []BadStep
			a.OnBadStep(func(b BadStep) error { kept = append(kept, b); return nil })
			spoil := c.spoil(a)
			calls := 0
			only := func(n int) { // makes the n-th micro-batch non-finite
				calls = 0
				a.spoil = func(l torch.Tensor) torch.Tensor {
					if calls++; calls == n {
						return spoil(l)
					}
					return l
				}
			}
			before := weights(t, a)
			only(2) // the second micro-batch of the only mini-batch
			st, err := a.UpdateActor(t.Context(), trainRows(4), 1e-3, o)
			must(t, err)
			if st.Skipped != 1 || st.Steps != 0 || st.Loss != 0 || math.IsNaN(st.Gap.Mean) || a.adamw.Steps() != 0 || a.inconsistent {
				t.Errorf("stats %+v after %d optimiser steps, inconsistent %v; want 1 skipped step, 0 steps and false", st, a.adamw.Steps(), a.inconsistent)
			}
			if d, name := relative(t, weights(t, a), before); d != 0 {
				t.Errorf("%s changed by %g in a skipped step", name, d)
			}
			if len(kept) != 1 || len(kept[0].Rows) != 4 || kept[0].LR != 1e-3 || !strings.Contains(kept[0].Cause.Error(), c.words) {
				t.Fatalf("OnBadStep received %+v, want one step of 4 rows with its cause", kept)
			}

			// If the first of two mini-batches is bad, the weights equal the weights after only the second.
			rows := trainRows(8)
			only(1)
			if st, err = a.UpdateActor(t.Context(), rows, 1e-3, o); err != nil || st.Skipped != 1 || st.Steps != 1 {
				t.Fatalf("stats %+v and error %v, want 1 skipped step and 1 step", st, err)
			}
			b := testActor(t, torch.Float32)
			var sums PolicyStats
			if _, err := b.updateMiniBatch(t.Context(), trainRows(8)[4:], 1e-3, false, o, &sums); err != nil {
				t.Fatal(err)
			}
			if d, name := relative(t, weights(t, a), weights(t, b)); d != 0 {
				t.Errorf("%s differs by %g from a run with only the finite mini-batch", name, d)
			}

			// After the finite step two bad steps are skipped, and the third is an error.
			a.spoil = spoil
			for n := 1; n <= 3; n++ {
				_, err = a.UpdateActor(t.Context(), trainRows(4), 1e-3, o)
				if (err != nil) != (n == 3) {
					t.Fatalf("consecutive bad step %d returned the error %v, want one only at the third", n, err)
				}
			}
			var diverged *DivergedError
			var loss *NotFiniteError
			var grad *optim.NotFiniteError
			if !errors.As(err, &diverged) || diverged.Steps != 3 || !errors.As(err, &loss) && !errors.As(err, &grad) || a.inconsistent {
				t.Errorf("the run ended with %v, inconsistent %v; want a DivergedError of 3 steps and false", err, a.inconsistent)
			}
		})
	}
}

var errDisk = errors.New("no space left")

// TestOtherErrorsAreNoBadSteps checks that other errors do not count as bad steps, and that a failure to write the
// batch of a bad step ends the run.
func TestOtherErrorsAreNoBadSteps(t *testing.T) {
	a := testActor(t, torch.Float32)
	if skipped, err := a.skip(nil, optim.Share{Of: a.adamw}, errDisk); skipped || !errors.Is(err, errDisk) {
		t.Errorf("skip = %v, %v, want false and the error of the disk", skipped, err)
	}
	a.OnBadStep(func(BadStep) error { return errDisk })
	if skipped, err := a.skip(nil, optim.Share{Of: a.adamw}, &NotFiniteError{What: "loss"}); skipped || !errors.Is(err, errDisk) {
		t.Errorf("skip = %v, %v, want false and the error of the disk", skipped, err)
	}
}

// TestCriticsBadStep checks that a non-finite step of the critic is skipped like a non-finite step
// of the actor.
func TestCriticsBadStep(t *testing.T) {
	c := testCritic(t, torch.Float32)
	before := weights(t, c.Actor)
	rows := valueRows(t, c)
	calls := 0
	c.spoil = func(l torch.Tensor) torch.Tensor {
		if calls++; calls == 1 {
			return l.MulScalar(math.NaN())
		}
		return l
	}
	o := criticOptions()
	o.MiniBatch = 0
	st, err := c.UpdateCritic(t.Context(), rows, 1e-2, *o)
	must(t, err)
	if st.Skipped != 1 || st.Steps != 0 || st.Loss != 0 {
		t.Errorf("stats %+v, want 1 skipped step, 0 steps and the loss 0", st)
	}
	if d, name := relative(t, weights(t, c.Actor), before); d != 0 {
		t.Errorf("%s changed by %g in a skipped step", name, d)
	}
	if st, err = c.UpdateCritic(t.Context(), rows, 1e-2, *o); err != nil || st.Steps != 1 || c.bad.inARow != 0 {
		t.Errorf("stats %+v and error %v, want 1 step", st, err)
	}
}

// TestWriteBadStep checks that a batch with NaN and infinities, which JSON does not have, can be
// written, and that the number of files is limited.
func TestWriteBadStep(t *testing.T) {
	run := &rundir.Folder{Dir: t.TempDir()}
	rows := trainRows(2)
	rows[0].Advantages[4] = float32(math.NaN())
	rows[1].OldLogProbs[4] = float32(math.Inf(-1))
	for range maxKeptBadSteps + 3 {
		must(t, BadStep{Cause: &optim.NotFiniteError{Norm: math.Inf(1), Params: []string{"p"}}, OptimizerStep: 7, LR: .5, Rows: rows}.Write(run.BadSteps()))
	}
	files, err := os.ReadDir(run.BadSteps())
	must(t, err)
	if len(files) != maxKeptBadSteps {
		t.Errorf("%d files were written, want %d", len(files), maxKeptBadSteps)
	}
	text, err := os.ReadFile(filepath.Join(run.BadSteps(), "000001.json"))
	must(t, err)
	for _, want := range []string{`"NaN"`, `"-Inf"`, `"params":["p"]`, `"optimizer_step":7`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the file lacks %s:\n%s", want, text)
		}
	}
}
