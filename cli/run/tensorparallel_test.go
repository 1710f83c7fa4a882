package run

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/openmanus/openmanus/algo/ranks"
	"github.com/openmanus/openmanus/env/listen/listentest"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch/dist"
)

// TestFailedCopyOfAPart checks that the error of a rank that copies its part of the weights ends the step of the rank that plays.
func TestFailedCopyOfAPart(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // the wait without Break
	defer cancel()
	port := listentest.Ports(t, 1)
	errCopy := errors.New("out of memory")
	results := make(chan error, 2)
	rank := func(rank int) error {
		env := dist.Env{Rank: rank, Size: 2, LocalRank: rank, LocalSize: 2, Host: "127.0.0.1", Port: port}
		g, err := dist.Join(ctx, env, 2*time.Minute)
		if err != nil {
			return err
		}
		r, err := ranks.New(ctx, g, env, func(error) errext.ExitCode { return errext.Native })
		if err != nil {
			return err
		}
		part, err := r.Connect(ctx, "tensor0", []int{0, 1}, 2*time.Minute)
		if err == nil {
			err = r.Each(ctx, func() error {
				return copyAndPlay(r, func() error {
					if rank == 1 {
						return errCopy
					}
					return nil
				}, func() error { return part.Group().Barrier(ctx) })
			})
		}
		return errors.Join(err, r.Close(err))
	}
	for i := range 2 {
		go func() {
			err := rank(i)
			if _, lost := errors.AsType[*dist.Error](err); i == 0 && !lost || i == 1 && !errors.Is(err, errCopy) {
				t.Errorf("rank %d: %v", i, err)
			}
			results <- err
		}()
	}
	for range 2 {
		<-results
	}
}
