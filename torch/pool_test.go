package torch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/openmanus/openmanus/torch"
)

// newThread starts a Thread of the CPU with its own number of threads, and closes it at the end of the test.
func newThread(t *testing.T, threads int) *torch.Thread {
	t.Helper()
	th, err := torch.NewThread(torch.Device{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(th.Close)
	th.SetNumThreads(threads)
	return th
}

// checkRegions opens regions of different sizes on th. Every chunk must run once, and the calls of its nested region in order.
func checkRegions(ctx context.Context, th *torch.Thread) error {
	return torch.Run(ctx, th, func(*torch.Scope) error {
		for round := range 200 {
			for _, n := range []int{0, 2, 3, 7, 100} {
				got, err := torch.ShareOut(n, -1)
				if err != nil {
					return err
				}
				if want := slices.Repeat([]int64{123}, n); !slices.Equal(got, want) {
					return fmt.Errorf("round %d: the chunks of a region of %d wrote %d, want 123 each", round, n, got)
				}
			}
		}
		return nil
	})
}

// TestRegions runs regions with fewer and with more threads than the machine has, on many Threads at once, and then with another number
// of threads on the same Thread.
func TestRegions(t *testing.T) {
	for _, threads := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(threads, " threads"), func(t *testing.T) {
			g, ctx := errgroup.WithContext(t.Context())
			for range 4 {
				th := newThread(t, threads)
				g.Go(func() error {
					for _, n := range []int{threads, 3, 1, threads} {
						th.SetNumThreads(n)
						if err := checkRegions(ctx, th); err != nil {
							return err
						}
					}
					return nil
				})
			}
			if err := g.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRegionFails checks that the exception of any chunk reaches the caller, and that the next region is whole.
func TestRegionFails(t *testing.T) {
	for _, threads := range []int{1, 3} {
		th := newThread(t, threads)
		const n = 40
		err := torch.Run(t.Context(), th, func(*torch.Scope) error {
			for bad := range n {
				got, err := torch.ShareOut(n, bad)
				if want := fmt.Sprintf("chunk %d of %d fails", bad, n); err == nil || !strings.Contains(err.Error(), want) {
					return fmt.Errorf("error %v, want one with %q", err, want)
				}
				if got[bad] != 0 {
					return errors.New("the chunk that fails has a result")
				}
			}
			return nil
		})
		if err == nil {
			err = checkRegions(t.Context(), th)
		}
		if err != nil {
			t.Errorf("%d threads: %v", threads, err)
		}
	}
}
