package cli

import (
	"context"
	"fmt"
	"sync"

	"github.com/openmanus/openmanus/internal/errext"
)

// Interrupts are the two contexts of a command that has something to finish.
type Interrupts struct {
	// Soft ends at the first signal: finish the step, save, return.
	Soft context.Context
	// Hard ends at the second SIGINT or SIGTERM, and the process with it a moment
	// later: native work in flight cannot be cancelled, and a killed run can be
	// resumed. A SIGHUP is never the second: when a terminal closes, the shell and
	// the kernel each send one.
	Hard context.Context
}

// watch turns signals into contexts until stop is called, which waits for the
// goroutine that does it.
func (s *State) watch(parent context.Context) (in Interrupts, stop func()) {
	hard, endHard := context.WithCancelCause(parent)
	soft, endSoft := context.WithCancelCause(hard)
	signals := make(chan Signal, 2)
	unsubscribe := s.Notify(signals)
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			var sig Signal
			select {
			case <-quit:
				return
			case sig = <-signals:
			}
			switch {
			case soft.Err() == nil:
				fmt.Fprintln(s.Stderr, "openmanus: interrupted: finishing what is in flight; once more stops at once")
				endSoft(errext.ErrInterrupted)
			case sig != hangUp:
				endHard(errext.ErrInterrupted)
				s.Exit(int(errext.Interrupted))
				return
			}
		}
	})
	return Interrupts{Soft: soft, Hard: hard}, func() {
		unsubscribe()
		close(quit)
		wg.Wait()
		endSoft(nil)
		endHard(nil)
	}
}

type interruptsKey struct{}

// Interrupts returns both contexts of the command that runs under ctx.
// ctx itself is Soft.
func (s *State) Interrupts(ctx context.Context) Interrupts {
	if in, ok := ctx.Value(interruptsKey{}).(Interrupts); ok {
		return in
	}
	return Interrupts{Soft: ctx, Hard: ctx}
}
