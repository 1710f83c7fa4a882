package algo

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/torch"
)

// TestRunWithBadSteps checks that a run continues after a bad step, records its batch in the run
// folder and its number in the metrics, and ends after three bad steps in a row.
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
	r.onWrite = func(l track.Line) error {
		m := l.Metrics
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
		t.Errorf("%v steps were skipped, want 1 whose file has the batch and the cause; the file is %.300s", skipped, text)
	}

	r = newRig(t)
	r.spoil = nan
	err = r.fit(t, t.Context(), t.Context())
	var diverged *learner.DivergedError
	if !errors.As(err, &diverged) {
		t.Fatalf("got %v", err)
	}
	if files, err := os.ReadDir((&rundir.Folder{Dir: r.dir}).BadSteps()); err != nil || len(files) != 3 {
		t.Errorf("%d bad steps were written, want 3 (error %v)", len(files), err)
	}
}

// TestBadStepOfContexts checks that the contexts of a skipped optimiser step have no entropies,
// since these would not describe the policy. The entropies of other steps are reported, and the run
// continues.
func TestBadStepOfContexts(t *testing.T) {
	r := newRig(t)
	r.format, r.steps = "history", 2
	r.options = func(o *Options) {
		o.WarmStart, o.ValBeforeTrain, o.TestEvery = nil, false, 0
		o.Policy.MiniBatch, o.Policy.Micro, o.Policy.Entropy = 2, learner.MicroBatching{Rows: 1}, true
	}
	calls := 0
	r.spoil = func(l torch.Tensor) torch.Tensor {
		if calls++; calls == 3 { // two of the four contexts already have entropies
			return l.MulScalar(math.NaN())
		}
		return l
	}
	must(t, r.fit(t, t.Context(), t.Context()))
	skipped, reported := 0., 0
	must(t, track.Read(filepath.Join(r.dir, "metrics.jsonl"), func(l track.Line) error {
		m := l.Metrics
		skipped += m["actor/skipped_steps"]
		if h, ok := m["actor/entropy/turn_1"]; ok {
			if reported++; !(h > 0) {
				t.Errorf("the entropy is %v, want a positive number", h)
			}
		}
		return nil
	}))
	if skipped != 1 || reported != 2 {
		t.Errorf("%v optimiser steps were skipped and %d entropies reported, want 1 and 2", skipped, reported)
	}
}
