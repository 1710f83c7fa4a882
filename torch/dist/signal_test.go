package dist

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"
)

// TestClosedConnectionDoesNotEndProcess sends the signal of a write to a closed connection to all threads of a rank.
func TestClosedConnectionDoesNotEndProcess(t *testing.T) {
	startRank(t, "gets SIGPIPE", patient, Env{Size: 1, LocalSize: 1, Host: "127.0.0.1", Port: freePort(t)}).succeed(t)
}

func init() {
	roles["gets SIGPIPE"] = func(ctx context.Context, m member) error {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, thread := range threads {
			id, err := strconv.Atoi(thread.Name())
			if err != nil {
				return err
			}
			_, _, errno := syscall.Syscall(syscall.SYS_TGKILL, uintptr(os.Getpid()), uintptr(id), uintptr(syscall.SIGPIPE))
			if errno != 0 && errno != syscall.ESRCH { // a thread of Go may have ended
				return fmt.Errorf("thread %d: %w", id, errno)
			}
		}
		return m.Barrier(ctx)
	}
}
