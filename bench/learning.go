package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// What the quickstart promises on start cells that training never saw.
const (
	mostBefore  = 0.35
	worstAfter  = 0.85
	medianAfter = 0.95
)

// Learning is what the quickstart came to with several seeds.
type Learning struct {
	Runs   []Run   `json:"runs"`
	Before float64 `json:"before_max"`
	Worst  float64 `json:"after_min"`
	Median float64 `json:"after_median"`
	Learns bool    `json:"learns"`
}

// Run is one quickstart.
type Run struct {
	Seed    int     `json:"seed"`
	Before  float64 `json:"before"` // success on held-out cells after the warm start
	After   float64 `json:"after"`  // and at the end
	Seconds float64 `json:"seconds"`
}

// measureLearning runs the quickstart with the seeds 1 to n, each in a folder
// of its own under dir.
func measureLearning(ctx context.Context, program, dir string, n int, says io.Writer) (l Learning, err error) {
	for seed := 1; seed <= n; seed++ {
		out := filepath.Join(dir, fmt.Sprintf("seed_%d", seed))
		if _, err := os.Stat(out); err == nil {
			return l, fmt.Errorf("%s is there already, and its run would not be done again: give --runs another folder", out)
		}
		r := Run{Seed: seed}
		var err error
		if r.Seconds, err = trainRun(ctx, program, []string{"train", "--set", fmt.Sprintf("trainer.seed=%d", seed), "--set", "trainer.output_dir=" + out}, 0); err != nil {
			return l, fmt.Errorf("seed %d: %w", seed, err)
		}
		f, err := os.Open(filepath.Join(out, "quickstart", "metrics.jsonl"))
		if err != nil {
			return l, err
		}
		r.Before, r.After, err = validations(f)
		f.Close()
		if err != nil {
			return l, fmt.Errorf("seed %d: %w", seed, err)
		}
		fmt.Fprintf(says, "seed %d: %.3f before, %.3f after, %.0f s\n", seed, r.Before, r.After, r.Seconds)
		l.Runs = append(l.Runs, r)
	}
	l.judge()
	return l, nil
}

// validations reads the first and the last success on held-out cells.
func validations(metrics io.Reader) (before, after float64, err error) {
	found := 0
	err = eachLine(metrics, func(line map[string]any) {
		x, ok := line["val/maze/success_rate"].(float64)
		if !ok {
			return
		}
		if found++; found == 1 {
			before = x
		}
		after = x
	})
	if err != nil {
		return 0, 0, err
	}
	if found < 2 {
		return 0, 0, errors.New("metrics.jsonl holds no validation before and after")
	}
	return before, after, nil
}

func (l *Learning) judge() {
	var after []float64
	for _, r := range l.Runs {
		l.Before = max(l.Before, r.Before)
		after = append(after, r.After)
	}
	slices.Sort(after)
	n := len(after)
	l.Worst = after[0]
	l.Median = (after[(n-1)/2] + after[n/2]) / 2
	l.Learns = l.Before <= mostBefore && l.Worst >= worstAfter && l.Median >= medianAfter
}

func (l *Learning) print(w io.Writer) {
	fmt.Fprintf(w, "\nlearning: success on held-out start cells, %d seeds\n", len(l.Runs))
	for _, r := range l.Runs {
		fmt.Fprintf(w, "  seed %2d   %.3f before   %.3f after   %4.0f s\n", r.Seed, r.Before, r.After, r.Seconds)
	}
	fmt.Fprintf(w, "  before at most %.3f (%.2f allowed), after at least %.3f (%.2f wanted), median %.3f (%.2f wanted): %s\n",
		l.Before, mostBefore, l.Worst, worstAfter, l.Median, medianAfter, verdict(l.Learns))
}
