package ranks

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
	"github.com/openmanus/openmanus/torch/torchtest"
)

func TestMain(m *testing.M) { torchtest.Main(m) }

var errStopped = errors.New("stopped")

// together joins n ranks in this process, calls f as each of them and returns their errors.
func together(t *testing.T, n int, f func(r *Ranks) error) []error {
	t.Helper()
	return togetherWithin(t, n, time.Minute, f)
}

// togetherWithin is together with another time-out of the group.
func togetherWithin(t *testing.T, n int, timeout time.Duration, f func(r *Ranks) error) []error {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	errs := make([]error, n)
	var wg sync.WaitGroup
	for rank := range n {
		wg.Go(func() {
			env := dist.Env{Rank: rank, Size: n, LocalRank: rank, LocalSize: n, Host: "127.0.0.1", Port: port}
			g, err := dist.Join(t.Context(), env, timeout)
			if err != nil {
				errs[rank] = err
				return
			}
			r, err := New(t.Context(), g, env, func(err error) errext.ExitCode {
				if errors.Is(err, errStopped) {
					return errext.Interrupted
				}
				return errext.Disk
			})
			if err != nil {
				g.Abort()
				errs[rank] = err
				return
			}
			err = f(r)
			errs[rank] = errors.Join(err, r.Close(err))
		})
	}
	wg.Wait()
	return errs
}

func TestExchange(t *testing.T) {
	ctx := t.Context()
	for _, err := range together(t, 3, func(r *Ranks) error {
		all, err := Gather(ctx, r, func() ([]string, error) { return make([]string, r.Rank()), nil })
		if err != nil {
			return err
		}
		for rank, v := range all {
			if len(v) != rank {
				return fmt.Errorf("Gather on rank %d: %v", r.Rank(), all)
			}
		}
		called := false
		v, err := Share(ctx, r, func() (float64, error) {
			called = true
			return 1.0 / 3, nil
		})
		if err != nil || v != 1.0/3 || called != r.First() {
			return fmt.Errorf("Share on rank %d: %v, %v, called: %v", r.Rank(), v, err, called)
		}
		any, err := r.Any(ctx, r.Rank() == 2)
		if err != nil || !any {
			return fmt.Errorf("Any on rank %d: %v, %v", r.Rank(), any, err)
		}
		none, err := r.Any(ctx, false)
		if err != nil || none {
			return fmt.Errorf("Any on rank %d: %v, %v, want false", r.Rank(), none, err)
		}
		return nil
	}) {
		if err != nil {
			t.Error(err)
		}
	}
}

// TestErrors checks that all ranks get the error of one, that rank 0 alone prints it, and that the exit code is the same.
func TestErrors(t *testing.T) {
	broken := errors.New("the disk is full")
	for name, c := range map[string]struct {
		at   map[int]error // by rank
		want int           // rank whose error is reported
		code errext.ExitCode
	}{
		"of rank 0":                      {map[int]error{0: broken}, 0, errext.Disk},
		"of rank 2":                      {map[int]error{2: broken}, 2, errext.Disk},
		"of two ranks":                   {map[int]error{1: broken, 2: broken}, 1, errext.Disk},
		"an interrupt":                   {map[int]error{1: errStopped}, 1, errext.Interrupted},
		"an interrupt and another error": {map[int]error{0: errStopped, 1: broken}, 1, errext.Disk},
	} {
		t.Run(name, func(t *testing.T) {
			errs := together(t, 3, func(r *Ranks) error {
				err := r.Each(t.Context(), func() error { return c.at[r.Rank()] })
				return r.Settle(t.Context(), err)
			})
			for rank, err := range errs {
				if err == nil {
					t.Errorf("rank %d has no error", rank)
					continue
				}
				if own := c.at[rank]; own != nil && rank == c.want && !errors.Is(err, own) {
					t.Errorf("rank %d: %v, want %v", rank, err, own)
				}
				if Printed(err) == (rank == 0) {
					t.Errorf("rank %d: Printed is %v", rank, Printed(err))
				}
				e, ok := errors.AsType[*Error](err)
				if !ok {
					if rank != 0 || c.want != 0 {
						t.Errorf("rank %d: %T", rank, err)
					}
					continue
				}
				if e.Rank != c.want || e.Code != c.code || Interrupted(err) != (c.code == errext.Interrupted) {
					t.Errorf("rank %d: %+v, want code %d of rank %d", rank, e, c.code, c.want)
				}
			}
		})
	}
}

// TestErrorBetweenExchanges checks that the error with which one rank leaves reaches a rank that exchanges a value of
// another type.
func TestErrorBetweenExchanges(t *testing.T) {
	errs := together(t, 2, func(r *Ranks) error {
		if r.Rank() == 1 {
			return r.Settle(t.Context(), errors.New("rank 1 left"))
		}
		_, err := Gather(t.Context(), r, func() (map[string]float64, error) { return map[string]float64{"x": 1}, nil })
		return err
	})
	e, ok := errors.AsType[*Error](errs[0])
	if !ok || e.Rank != 1 || e.Text != "rank 1 left" {
		t.Errorf("rank 0 got %v", errs[0])
	}
}

// TestSettleOfANativeError checks that an error of the native libraries breaks the connection: the other ranks may be in a
// collective on tensors.
func TestSettleOfANativeError(t *testing.T) {
	var broke [2]bool
	errs := together(t, 2, func(r *Ranks) error {
		defer func() { broke[r.Rank()] = r.Broken() }()
		if r.Rank() == 1 {
			return r.Settle(t.Context(), fmt.Errorf("update: %w", &torch.Error{}))
		}
		return r.Each(t.Context(), func() error { return nil })
	})
	if _, ok := errors.AsType[*torch.Error](errs[1]); !ok || Printed(errs[1]) {
		t.Errorf("rank 1 got %v", errs[1])
	}
	if _, ok := errors.AsType[*dist.Error](errs[0]); !ok {
		t.Errorf("rank 0 got %v", errs[0])
	}
	if !slices.Equal(broke[:], []bool{true, true}) {
		t.Errorf("Broken is %v", broke)
	}
}

// TestWorkLongerThanTheTimeout checks that workers and trainers wait for each other's work for longer than the time-out.
func TestWorkLongerThanTheTimeout(t *testing.T) {
	const timeout = 2 * time.Second
	work := func(works bool) {
		if works {
			time.Sleep(timeout * 3 / 2)
		}
	}
	for rank, err := range togetherWithin(t, 2, timeout, func(r *Ranks) error {
		if err := r.AssignWorkers(t.Context(), 1, timeout); err != nil {
			return err
		}
		all, err := Gather(t.Context(), r, func() (int, error) {
			work(!r.Trains()) // plays
			return r.Rank() + 1, nil
		})
		if err != nil || !slices.Equal(all, []int{1, 2}) {
			return fmt.Errorf("Gather: %v, %w", all, err)
		}
		version, err := r.AfterUpdate(t.Context(), func() (int64, error) {
			work(r.Trains()) // learns
			return int64(7 - r.Rank()), nil
		})
		if err != nil || version != 7 {
			return fmt.Errorf("AfterUpdate: %d, %w", version, err)
		}
		return nil
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

// TestFinish checks that the ranks wait for the end of rank 0 for longer than the time-out, and get its error.
func TestFinish(t *testing.T) {
	const timeout = 2 * time.Second
	for name, sinkErr := range map[string]error{"success": nil, "an error": errors.New("the disk is full")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for rank, err := range togetherWithin(t, 2, timeout, func(r *Ranks) error {
				return r.Finish(t.Context(), func() error {
					if !r.First() {
						return nil
					}
					time.Sleep(timeout * 3 / 2)
					return sinkErr
				})
			}) {
				if (err == nil) != (sinkErr == nil) || rank == 0 && !errors.Is(err, sinkErr) {
					t.Errorf("rank %d: %v, want %v", rank, err, sinkErr)
				}
			}
		})
	}
}

// TestAlone checks the methods of nil, which is a run of one process.
func TestAlone(t *testing.T) {
	var r *Ranks
	broken := errors.New("broken")
	all, err := Gather(t.Context(), r, func() (int, error) { return 7, nil })
	if !slices.Equal(all, []int{7}) || err != nil {
		t.Errorf("Gather: %v, %v", all, err)
	}
	if err := r.OnFirst(t.Context(), func() error { return broken }); !errors.Is(err, broken) || Printed(err) {
		t.Errorf("OnFirst: %v", err)
	}
	if r.Size() != 1 || !r.First() || r.Group() != nil || r.Broken() || r.Close(nil) != nil || !errors.Is(r.Settle(t.Context(), broken), broken) {
		t.Error("nil is not a single process")
	}
}
