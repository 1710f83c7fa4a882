package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/openmanus/openmanus/internal/process"
)

// several calls f with 0 to n-1; the argument jobs limits the simultaneous calls. threads is
// each call's share of the cores. An error cancels the running calls, and no further call starts.
func several(ctx context.Context, n, jobs int, f func(ctx context.Context, i, threads int) error) error {
	threads := max(1, runtime.NumCPU()/jobs)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(jobs)
	for i := range n {
		g.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return f(ctx, i, threads)
		})
	}
	return g.Wait()
}

// trainSeed trains the quickstart with a seed and further settings in the new
// folder out. threads sets the number of libtorch's threads; 0 leaves the default.
// It returns the path of the metrics and the duration. An error has the output of
// the program.
func trainSeed(ctx context.Context, program, out string, seed, threads int, sets []string) (metrics string, seconds float64, err error) {
	if err := unused(out); err != nil {
		return "", 0, err
	}
	args := []string{"train"}
	for _, set := range append([]string{fmt.Sprintf("trainer.seed=%d", seed), "trainer.output_dir=" + out}, sets...) {
		args = append(args, "--set", set)
	}
	began := time.Now()
	cmd := process.Command(ctx, program, args...)
	if threads > 0 {
		cmd.Env = append(os.Environ(), fmt.Sprintf("OMP_NUM_THREADS=%d", threads))
	}
	text, err := cmd.CombinedOutput()
	if err != nil {
		return "", 0, fmt.Errorf("%w\n%s", err, text)
	}
	return filepath.Join(out, "quickstart", "metrics.jsonl"), time.Since(began).Seconds(), nil
}
