package algo

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/optim"
)

// faulty are the ways in which a step is not finite.
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
		return func(l torch.Tensor) torch.Tensor { // √x at 0 is finite, its slope is not
			w := a.master.Norm.Weight
			return l.Add(w.Sub(w.Detach()).Sqrt().Sum())
		}
	}},
}

// A step that is not finite changes neither weights nor moments and is told
// of; the third in a row ends the run; one that is finite begins the count anew.
func TestBadStepsAreLeftOut(t *testing.T) {
	o := vanillaOptions()
	o.MiniBatch, o.Micro = 4, MicroBatching{Rows: 2}
	for _, c := range faulty {
		t.Run(c.name, func(t *testing.T) {
			a := testActor(t, torch.Float32)
			var kept []BadStep
			a.OnBadStep(func(b BadStep) error { kept = append(kept, b); return nil })
			spoil := c.spoil(a)
			calls := 0
			only := func(n int) { // the n-th micro-batch
				calls = 0
				a.spoil = func(l torch.Tensor) torch.Tensor {
					if calls++; calls == n {
						return spoil(l)
					}
					return l
				}
			}
			before := weights(t, a)
			only(2) // one mini-batch, whose second half is bad
			st, err := a.UpdateActor(t.Context(), trainRows(4), 1e-3, o)
			must(t, err)
			if st.Skipped != 1 || st.Steps != 0 || st.Loss != 0 || math.IsNaN(st.Gap.Mean) || a.adamw.Steps() != 0 || a.torn {
				t.Errorf("%+v after %d optimiser steps, torn %v", st, a.adamw.Steps(), a.torn)
			}
			if d, name := relative(t, weights(t, a), before); d != 0 {
				t.Errorf("%s moved by %g", name, d)
			}
			if len(kept) != 1 || len(kept[0].Rows) != 4 || kept[0].LR != 1e-3 || !strings.Contains(kept[0].Cause.Error(), c.words) {
				t.Fatalf("kept %+v", kept)
			}

			// Two mini-batches, the first bad: the second is as if it were alone.
			rows := trainRows(8)
			only(1)
			if st, err = a.UpdateActor(t.Context(), rows, 1e-3, o); err != nil || st.Skipped != 1 || st.Steps != 1 {
				t.Fatalf("%+v %v", st, err)
			}
			b := testActor(t, torch.Float32)
			var sums PolicyStats
			if _, err := b.updateMiniBatch(t.Context(), trainRows(8)[4:], 1e-3, false, o, &sums); err != nil {
				t.Fatal(err)
			}
			if d, name := relative(t, weights(t, a), weights(t, b)); d != 0 {
				t.Errorf("%s is off by %g after a bad and a good mini-batch", name, d)
			}

			// Two bad ones after the good one are borne, the third is not.
			a.spoil = spoil
			for n := 1; n <= 3; n++ {
				_, err = a.UpdateActor(t.Context(), trainRows(4), 1e-3, o)
				if (err != nil) != (n == 3) {
					t.Fatalf("bad step %d in a row: %v", n, err)
				}
			}
			var diverged *DivergedError
			var loss *NotFiniteError
			var grad *optim.NotFiniteError
			if !errors.As(err, &diverged) || diverged.Steps != 3 || !errors.As(err, &loss) && !errors.As(err, &grad) || a.torn {
				t.Errorf("ended with %v, torn %v", err, a.torn)
			}
		})
	}
}

// An error that is not about numbers is no bad step, and what cannot be kept
// ends the run.
func TestOtherErrorsAreNoBadSteps(t *testing.T) {
	a := testActor(t, torch.Float32)
	if left, err := a.leaveOut(nil, 0, errFull); left || !errors.Is(err, errFull) {
		t.Errorf("left out %v, %v", left, err)
	}
	a.OnBadStep(func(BadStep) error { return errFull })
	if left, err := a.leaveOut(nil, 0, &NotFiniteError{What: "loss"}); left || !IsDiskError(err) {
		t.Errorf("left out %v, %v", left, err)
	}
}

// A critic's step that is not finite is left out as an actor's is.
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
		t.Errorf("%+v", st)
	}
	if d, name := relative(t, weights(t, c.Actor), before); d != 0 {
		t.Errorf("%s moved by %g", name, d)
	}
	if st, err = c.UpdateCritic(t.Context(), rows, 1e-2, *o); err != nil || st.Steps != 1 || c.bad.inARow != 0 {
		t.Errorf("%+v %v", st, err)
	}
}

// A run goes on after a bad step, with its batch in the run folder and its
// place in the metrics, and ends after three.
func TestRunWithBadSteps(t *testing.T) {
	nan := func(l torch.Tensor) torch.Tensor { return l.MulScalar(math.NaN()) }
	r := newRig(t)
	calls := 0
	r.spoil = func(l torch.Tensor) torch.Tensor {
		if calls++; calls == 2 {
			return nan(l)
		}
		return l
	}
	skipped := 0.0
	r.onWrite = func(_ int, m track.Metrics) error {
		skipped += m["train/skipped_steps"] + m["actor/skipped_steps"]
		for name, x := range m {
			if math.IsNaN(x) {
				t.Errorf("metric %s is NaN", name)
			}
		}
		return nil
	}
	must(t, r.fit(t, t.Context(), t.Context()))
	run := &rundir.Folder{Dir: r.dir}
	text, err := os.ReadFile(filepath.Join(run.BadSteps(), "000001.json"))
	must(t, err)
	var file struct {
		Cause string
		Rows  []struct {
			Tokens, Mask []int
		}
	}
	must(t, json.Unmarshal(text, &file))
	if skipped != 1 || len(file.Rows) != 1 || len(file.Rows[0].Tokens) == 0 || len(file.Rows[0].Mask) != len(file.Rows[0].Tokens) ||
		!strings.Contains(file.Cause, "loss is NaN") {
		t.Errorf("%v steps were left out; kept: %.300s", skipped, text)
	}

	r = newRig(t)
	r.spoil = nan
	err = r.fit(t, t.Context(), t.Context())
	var diverged *DivergedError
	if !errors.As(err, &diverged) {
		t.Fatalf("got %v", err)
	}
	if files, err := os.ReadDir((&rundir.Folder{Dir: r.dir}).BadSteps()); err != nil || len(files) != 3 {
		t.Errorf("%d bad steps are kept, want 3 (%v)", len(files), err)
	}
}

// A step is written with numbers that JSON does not have, and only so many.
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
		t.Errorf("%d files", len(files))
	}
	text, err := os.ReadFile(filepath.Join(run.BadSteps(), "000001.json"))
	must(t, err)
	for _, want := range []string{`"NaN"`, `"-Inf"`, `"params":["p"]`, `"optimizer_step":7`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

// Where an episode has several contexts, those of a step that was left out have
// no entropies, which would not be the policy's; the others' are told, and the
// run goes on.
func TestBadStepOfContexts(t *testing.T) {
	r := newRig(t)
	r.format, r.steps = "history", 2
	r.options = func(o *Options) {
		o.WarmStart, o.ValBeforeTrain, o.TestEvery = nil, false, 0
		o.Policy.MiniBatch, o.Policy.Micro, o.Policy.Entropy = 2, MicroBatching{Rows: 1}, true
	}
	calls := 0
	r.spoil = func(l torch.Tensor) torch.Tensor {
		if calls++; calls == 3 { // two of four contexts have theirs already
			return l.MulScalar(math.NaN())
		}
		return l
	}
	must(t, r.fit(t, t.Context(), t.Context()))
	skipped, told := 0., 0
	must(t, track.Read(filepath.Join(r.dir, "metrics.jsonl"), func(_ int, m track.Metrics) error {
		skipped += m["actor/skipped_steps"]
		if h, ok := m["actor/entropy/turn_1"]; ok {
			if told++; !(h > 0) {
				t.Errorf("an entropy of %v", h)
			}
		}
		return nil
	}))
	if skipped != 1 || told != 2 {
		t.Errorf("%v optimiser steps were left out, %d lines tell entropies", skipped, told)
	}
}
