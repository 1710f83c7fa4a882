package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestShared runs the measurement on a tiny model, beside one busy process, which is this test binary.
func TestShared(t *testing.T) {
	var log strings.Builder
	s, err := measureShared(t.Context(), options{model: filepath.Join("..", "agent", "llm", "model", "testdata", "llama-tied"), busy: 1, rounds: 1}, &log)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range s.Rows {
		got = append(got, r.Job.Name+", "+r.DType)
		for _, run := range append(r.QuietRuns, r.LoadedRuns...) {
			if run.Rate <= 0 || run.Share <= 0 || run.Share > 1.01 {
				t.Errorf("%s: got the run %+v, want a rate and a share of at most 1", r.Job.Name, run)
			}
		}
	}
	want := []string{
		"decode, 1 row, float32", "decode, 8 rows, float32", "decode, 32 rows, float32",
		"decode, 1 row, bfloat16", "decode, 8 rows, bfloat16", "decode, 32 rows, bfloat16",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	var b strings.Builder
	if err := s.print(&b, 1, 1); err != nil || strings.Count(b.String(), "decode") != 6 {
		t.Errorf("error %v, printed\n%s", err, b.String())
	}
}

// TestBusy checks that stop and the end of stdin end busy processes.
func TestBusy(t *testing.T) {
	stop, err := startBusy(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	stop()
	ended := make(chan error, 1)
	go func() { ended <- beBusy(strings.NewReader("")) }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("a busy process runs on after the end of stdin")
	}
}

func TestSharedJudged(t *testing.T) {
	for _, test := range []struct {
		loaded, share float64
		reached       bool
	}{{20, 0.28, true}, {19, 0.28, false}, {100, 1, true}} {
		r := SharedRow{
			QuietRuns:  []SharedRun{{Rate: 90, Share: 0.9}, {Rate: 500, Share: 1}, {Rate: 100, Share: 0.95}},
			LoadedRuns: []SharedRun{{Rate: test.loaded - 1, Share: test.share - 0.1}, {Rate: test.loaded + 1, Share: test.share + 0.1}},
		}
		r.judge()
		if r.Quiet != 100 || r.QuietShare != 0.95 || r.Loaded != test.loaded || r.Reached != test.reached {
			t.Errorf("got %+v, want the medians 100 and %v, reached %t", r, test.loaded, test.reached)
		}
	}
}
