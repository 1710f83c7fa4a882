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

// The bounds of success on held-out start cells.
const (
	mostBefore  = 0.35
	worstAfter  = 0.85
	medianAfter = 0.95
	// mostSeconds is the time a run may take on two idle cores. It is reported and
	// not judged, since other work on the machine is unknown.
	mostSeconds = 240
)

// Learning is the result of the quickstart with several seeds.
type Learning struct {
	Runs   []Run   `json:"runs"`
	Before float64 `json:"before_max"`
	Worst  float64 `json:"after_min"`
	Median float64 `json:"after_median"`
	Learns bool    `json:"learns"`
}

// Run is the result of one quickstart.
type Run struct {
	Seed    int     `json:"seed"`
	Before  float64 `json:"before"` // success on held-out cells after the warm start
	After   float64 `json:"after"`  // success on held-out cells at the end
	Seconds float64 `json:"seconds"`
}

func runLearning(ctx context.Context, o *options, _ []string, log io.Writer) (result, error) {
	return inFolder(o.keep, func(dir string) (result, error) { return measureLearning(ctx, o.program, dir, o.seeds, log) })
}

// measureLearning runs the quickstart with the seeds 1 to n in folders under dir.
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

// quickstart trains the quickstart and returns its result and its validations. The
// parameters have the same meaning as in trainSeed.
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

// unused returns an error if a folder exists: train would resume the run in it.
func unused(out string) error {
	if _, err := os.Stat(out); err == nil {
		return fmt.Errorf("%s already exists, and its run would be resumed: give --runs another folder", out)
	}
	return nil
}

// validated holds the result of a validation.
type validated struct {
	Step    int
	Success float64 // on held-out cells
}

// validations reads the validations of a run from its metrics. There must be at
// least two: one before training and one after.
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
		return nil, errors.New("metrics.jsonl must have a validation before and one after training")
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
	fmt.Fprintf(w, "  before at most %.3f (%.2f allowed), after at least %.3f (%.2f required), median %.3f (%.2f required): %s\n",
		l.Before, mostBefore, l.Worst, worstAfter, l.Median, medianAfter, verdict(l.Learns))
	slowest := slices.MaxFunc(l.Runs, func(a, b Run) int { return cmp.Compare(a.Seconds, b.Seconds) })
	_, err := fmt.Fprintf(w, "  slowest %.0f s, with start and validations (at most %d s expected on two idle cores; not judged)\n", slowest.Seconds, mostSeconds)
	return err
}
