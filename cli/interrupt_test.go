package cli

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/openmanus/openmanus/internal/errext"
)

func TestInterrupts(t *testing.T) {
	ts := newTestState(t)
	in, stop := ts.watch(t.Context())
	defer stop()

	ts.signals <- syscall.SIGINT
	<-in.Soft.Done()
	if in.Hard.Err() != nil {
		t.Fatal("the first signal ended the hard context")
	}
	if !errors.Is(context.Cause(in.Soft), errext.ErrInterrupted) {
		t.Errorf("cause %v", context.Cause(in.Soft))
	}
	ts.signals <- syscall.SIGTERM
	<-in.Hard.Done()
	if code := <-ts.exited; code != 130 {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(ts.err.String(), "interrupt again") {
		t.Errorf("stderr %q", ts.err.String())
	}
}

// A closed terminal sends SIGHUP twice, from the shell and from the kernel. Neither counts as the second signal,
// which stops the process at once.
func TestHangups(t *testing.T) {
	ts := newTestState(t)
	in, stop := ts.watch(t.Context())
	defer stop()
	for range 6 { // more than wait for a watcher that has ended
		select {
		case ts.signals <- syscall.SIGHUP:
		case code := <-ts.exited:
			t.Fatalf("a SIGHUP ended the process with %d", code)
		}
	}
	<-in.Soft.Done()
	ts.signals <- syscall.SIGINT
	<-in.Hard.Done()
	if got := strings.Count(ts.err.String(), "interrupted"); got != 1 {
		t.Errorf("%d messages: %q", got, ts.err)
	}
}

func TestInterruptsOfACommand(t *testing.T) {
	ts := newTestState(t)
	in, stop := ts.watch(t.Context())
	defer stop()
	ctx := context.WithValue(in.Soft, interruptsKey{}, in)
	if got := ts.Interrupts(context.WithoutCancel(ctx)); got != in {
		t.Error("a command does not find its contexts")
	}
	if got := ts.Interrupts(t.Context()); got.Soft != t.Context() || got.Hard != t.Context() {
		t.Error("without a watcher both contexts are the caller's")
	}
}
