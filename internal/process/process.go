// Package process has what bench and accept need of the operating system's
// processes: child programs that end cleanly, and CPU time.
package process

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Command is exec.CommandContext for a program that ends cleanly on an
// interrupt: when ctx ends it is interrupted, and killed 20 s later.
func Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	return cmd
}

// CPUTime returns the CPU time this process has used so far, or 0 if the
// system does not report it.
func CPUTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
