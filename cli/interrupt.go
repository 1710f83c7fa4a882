package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

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
	// Claim makes f receive the next SIGINTs in place of the contexts above, until release is
	// called. A SIGINT for which f returns false is handled as usual.
	Claim func(f func() bool) (release func())
	// Forward sends all signals to c in place of the contexts above, until release is called.
	Forward func(c chan<- Signal) (release func())
	// Silence stops the message at the first signal, which another process prints.
	Silence func()
	// Starting makes SIGUSR1, by which the launcher of --processes tells that another process has failed, end Soft, and the process
	// after launchGrace, until started is called. From then on the process notices the failure itself, and saves its work first.
	Starting func() (started func())
}

// errOtherFailed is the error of a process that was starting when another process failed.
var errOtherFailed = errext.With(errext.Native, "", errors.New("another process of the run has failed"))

// watch returns contexts that end at signals. The function stop ends the handling of signals and
// waits for its goroutine.
func (s *State) watch(parent context.Context) (in Interrupts, stop func()) {
	hard, endHard := context.WithCancelCause(parent)
	soft, endSoft := context.WithCancelCause(hard)
	signals := make(chan Signal, 2)
	unsubscribe := s.Notify(signals)
	quit := make(chan struct{})
	var silent, starting atomic.Bool
	var forward atomic.Pointer[chan<- Signal]
	var claim atomic.Pointer[func() bool]
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			var sig Signal
			select {
			case <-quit:
				return
			case sig = <-signals:
			}
			if sig == otherFailed {
				if starting.Load() && soft.Err() == nil {
					endSoft(errOtherFailed)
					defer time.AfterFunc(launchGrace, func() {
						if starting.Load() {
							s.Exit(int(errext.Native))
						}
					}).Stop()
				}
				continue
			}
			if to := forward.Load(); to != nil {
				select {
				case *to <- sig:
				case <-quit:
					return
				}
				continue
			}
			f := claim.Load()
			switch {
			case sig == ctrlC && f != nil && (*f)():
			case soft.Err() == nil:
				if !silent.Load() {
					fmt.Fprintln(s.Stderr, "openmanus: interrupted: finishing the work in progress; interrupt again to stop immediately")
				}
				endSoft(errext.ErrInterrupted)
			case sig != hangUp:
				endHard(errext.ErrInterrupted)
				s.Exit(int(errext.Interrupted))
				return
			}
		}
	})
	in = Interrupts{Soft: soft, Hard: hard, Claim: func(f func() bool) func() {
		claim.Store(&f)
		return func() { claim.Store(nil) }
	}, Forward: func(c chan<- Signal) func() {
		forward.Store(&c)
		return func() { forward.Store(nil) }
	}, Silence: func() { silent.Store(true) }, Starting: func() func() {
		starting.Store(true)
		return func() { starting.Store(false) }
	}}
	return in, func() {
		unsubscribe()
		close(quit)
		wg.Wait()
		endSoft(nil)
		endHard(nil)
	}
}
