// Package process starts child programs that can clean up when they are stopped, and
// measures CPU time. bench and accept use it.
package process

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Command returns a command that is interrupted when ctx ends, so that it can clean
// up, and killed 20 s later.
func Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	return cmd
}

// CPUTime returns the CPU time that this process has used, or 0 if the system
// does not report it.
func CPUTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
