// Package disttest runs several ranks of a group in one process, for tests.
package disttest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/openmanus/openmanus/internal/freeport"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// Timeout is the limit of the collectives of Run.
const Timeout = time.Minute

// Run joins a group of n ranks of this process, each on its own thread of the tests' device, and calls f for each of them at the
// same time. It fails the test if a call fails. A rank whose f fails ends the collectives of the others.
func Run(t testing.TB, n int, f func(th *torch.Thread, g *dist.Group) error) {
	t.Helper()
	if err := errors.Join(Errors(t, n, Timeout, f)...); err != nil {
		t.Fatal(err)
	}
}

// Errors is Run with another limit of the collectives. It returns the error of each rank.
func Errors(t testing.TB, n int, timeout time.Duration, f func(th *torch.Thread, g *dist.Group) error) []error {
	t.Helper()
	port, err := freeport.Find(1)
	if err != nil {
		t.Fatal(err)
	}
	errs := make([]error, n)
	var wg sync.WaitGroup
	for r := range n {
		th, err := torch.NewThread(torchtest.Device(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(th.Close)
		wg.Go(func() {
			env := dist.Env{Rank: r, Size: n, LocalRank: r, LocalSize: n, Host: "127.0.0.1", Port: port}
			g, err := dist.Join(t.Context(), env, timeout)
			if err == nil {
				defer g.Abort()
				if err = f(th, g); err == nil {
					err = g.Close(t.Context())
				}
			}
			errs[r] = err
		})
	}
	wg.Wait()
	return errs
}
