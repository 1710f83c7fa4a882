package cli

import (
	"context"
	"fmt"
	"sync"

	"github.com/openmanus/openmanus/internal/errext"
)

// Interrupts holds the contexts of a command that finishes work after a signal.
type Interrupts struct {
	// Soft ends at the first signal. The command finishes its step, saves and
	// returns.
	Soft context.Context
	// Hard ends at the second SIGINT or SIGTERM, just before the process exits,
	// since native work cannot be cancelled. SIGHUP does not count as the second
	// signal: the shell and the kernel each send one when a terminal closes.
	Hard context.Context
}

// watch returns contexts that end at signals. The function stop ends the handling of signals and
// waits for its goroutine.
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
				fmt.Fprintln(s.Stderr, "openmanus: interrupted: finishing and saving; interrupt again to stop immediately")
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
