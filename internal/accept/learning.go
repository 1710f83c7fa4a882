package main

import (
	"cmp"
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
	// mostSeconds is how long one takes at most on two cores that do nothing
	// else. It is reported and not judged: who can say what else these did.
	mostSeconds = 240
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

func runLearning(ctx context.Context, o *options, _ []string, log io.Writer) (result, error) {
	return inFolder(o.keep, func(dir string) (result, error) { return measureLearning(ctx, o.program, dir, o.seeds, log) })
}

// measureLearning runs the quickstart with the seeds 1 to n, each in a folder
// of its own under dir.
func measureLearning(ctx context.Context, program, dir string, n int, log io.Writer) (*Learning, error) {
	l := &Learning{}
	for seed := 1; seed <= n; seed++ {
		r, _, err := quickstart(ctx, program, filepath.Join(dir, fmt.Sprintf("seed_%d", seed)), seed, 0)
		if err != nil {
			return nil, fmt.Errorf("seed %d: %w", seed, err)
		}
		fmt.Fprintf(log, "seed %d: %.3f before, %.3f after, %.0f s\n", seed, r.Before, r.After, r.Seconds)
		l.Runs = append(l.Runs, r)
	}
	l.judge()
	return l, nil
}

// quickstart trains it with a seed and more settings in the new folder out, and
// returns its validations as well. threads are those of trainSeed.
func quickstart(ctx context.Context, program, out string, seed, threads int, sets ...string) (r Run, found []validated, err error) {
	metrics, seconds, err := trainSeed(ctx, program, out, seed, threads, sets)
	if err != nil {
		return r, nil, err
	}
	r.Seed, r.Seconds = seed, seconds
	f, err := os.Open(metrics)
	if err != nil {
		return r, nil, err
	}
	defer f.Close()
	if found, err = validations(f); err != nil {
		return r, nil, err
	}
	r.Before, r.After = found[0].Success, found[len(found)-1].Success
	return r, found, nil
}

// unused refuses a folder that a run has written to: it would be gone on with.
func unused(out string) error {
	if _, err := os.Stat(out); err == nil {
		return fmt.Errorf("%s is there already, and its run would not be done again: give --runs another folder", out)
	}
	return nil
}

// validated is what a validation found.
type validated struct {
	Step    int
	Success float64 // on held-out cells
}

// validations reads a run's: one before training at least, and one after.
func validations(metrics io.Reader) ([]validated, error) {
	var found []validated
	err := eachLine(metrics, func(line map[string]any) {
		if x, ok := line["val/maze/success_rate"].(float64); ok {
			step, _ := line["step"].(float64)
			found = append(found, validated{Step: int(step), Success: x})
		}
	})
	if err != nil {
		return nil, err
	}
	if len(found) < 2 {
		return nil, errors.New("metrics.jsonl holds no validation before and after")
	}
	return found, nil
}

func (l *Learning) judge() {
	var after []float64
	for _, r := range l.Runs {
		l.Before = max(l.Before, r.Before)
		after = append(after, r.After)
	}
	l.Worst = slices.Min(after)
	l.Median = median(after)
	l.Learns = l.Before <= mostBefore && l.Worst >= worstAfter && l.Median >= medianAfter
}

func median(xs []float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	n := len(xs)
	return (xs[(n-1)/2] + xs[n/2]) / 2
}

func (l *Learning) kept() bool { return l.Learns }

func (l *Learning) print(w io.Writer) error {
	fmt.Fprintf(w, "learning: success on held-out start cells, %d seeds\n", len(l.Runs))
	for _, r := range l.Runs {
		fmt.Fprintf(w, "  seed %2d   %.3f before   %.3f after   %4.0f s\n", r.Seed, r.Before, r.After, r.Seconds)
	}
	fmt.Fprintf(w, "  before at most %.3f (%.2f allowed), after at least %.3f (%.2f wanted), median %.3f (%.2f wanted): %s\n",
		l.Before, mostBefore, l.Worst, worstAfter, l.Median, medianAfter, verdict(l.Learns))
	slowest := slices.MaxFunc(l.Runs, func(a, b Run) int { return cmp.Compare(a.Seconds, b.Seconds) })
	_, err := fmt.Fprintf(w, "  slowest %.0f s, with the start and the validations (%d s wanted on two idle cores; not judged)\n", slowest.Seconds, mostSeconds)
	return err
}
