package cli

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/openmanus/openmanus/cli/run"
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

// TestHangups checks that SIGHUP does not count as the second signal, which ends the process: when a terminal closes,
// the shell and the kernel each send one.
func TestHangups(t *testing.T) {
	ts := newTestState(t)
	in, stop := ts.watch(t.Context())
	defer stop()
	for range 6 { // more than the capacity of the channel
		select {
		case ts.signals <- syscall.SIGHUP:
		case code := <-ts.exited:
			t.Fatalf("SIGHUP ended the process with %d", code)
		}
	}
	<-in.Soft.Done()
	ts.signals <- syscall.SIGINT
	<-in.Hard.Done()
	if got := strings.Count(ts.err.String(), "interrupted"); got != 1 {
		t.Errorf("%d messages: %q", got, ts.err)
	}
}

// TestOtherFailed checks that the failure of another process ends only a process that is starting, and that it is not an interrupt.
func TestOtherFailed(t *testing.T) {
	ts := newTestState(t)
	in, stop := ts.watch(t.Context())
	defer stop()
	started := in.Starting()
	started()
	for range cap(ts.signals) + 2 { // so that the first has been handled
		ts.signals <- syscall.SIGUSR1
	}
	if in.Soft.Err() != nil {
		t.Fatal("SIGUSR1 ended a process that had started")
	}
	in.Starting()
	ts.signals <- syscall.SIGUSR1
	<-in.Soft.Done()
	if code := run.CodeOf(in.Soft, context.Cause(in.Soft)); code != errext.Native || ts.err.String() != "" {
		t.Errorf("code %d, output %q", code, ts.err)
	}
}
