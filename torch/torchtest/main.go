// Package torchtest supports tests of code that computes with package torch: one shared CPU thread per test binary,
// checks that no tensor and no goroutine is left, comparisons, and gradients checked against finite differences.
//
// It owns the shared thread, which [Main] ends. Its functions may be called from many tests at once.
package torchtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/openmanus/openmanus/torch"
)

var (
	mu     sync.Mutex
	shared *torch.Thread // guarded by mu
)

// Main runs the tests of a package and then fails if a tensor or a goroutine is still alive. Call it from TestMain.
func Main(m *testing.M) { os.Exit(Check(m.Run())) }

// Check ends the shared thread after the tests. It returns code, or 1 if code is 0 and a tensor or a goroutine is still
// alive.
func Check(code int) int {
	mu.Lock()
	if shared != nil {
		shared.Close()
		shared = nil
	}
	mu.Unlock()
	err := errors.Join(leakedTensors(), goleak.Find())
	if err != nil {
		fmt.Fprintln(os.Stderr, "torchtest:", err)
		if code == 0 {
			return 1
		}
	}
	return code
}

func leakedTensors() error {
	n := torch.LiveTensors()
	if n == 0 {
		return nil
	}
	s := fmt.Sprintf("%d tensors with %d bytes were never freed", n, torch.LiveBytes())
	live := torch.Live()
	for _, l := range live {
		s += fmt.Sprintf("\n  %v%v in %s, made at %s", l.DType, l.Shape, l.Home, l.Site)
	}
	if live == nil {
		s += "; -tags torchdebug shows where they were made"
	}
	return errors.New(s)
}

// Thread returns the thread of Device that the tests of a binary share.
func Thread(t testing.TB) *torch.Thread {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	if shared == nil {
		th, err := torch.NewThread(Device(t))
		if err != nil {
			t.Fatal(err)
		}
		shared = th
	}
	return shared
}

// Run calls f on the shared thread and fails the test if an operation fails. f may call t.Fatal.
func Run(t testing.TB, f func(s *torch.Scope)) {
	t.Helper()
	if err := RunErr(t, f); err != nil {
		t.Fatal(err)
	}
}

// RunErr is the variant of Run that returns the error.
func RunErr(t testing.TB, f func(s *torch.Scope)) error {
	t.Helper()
	return torch.Run(context.Background(), Thread(t), func(s *torch.Scope) error {
		f(s)
		return nil
	})
}

// Device returns the device of the tests: the CPU, or the device that OPENMANUS_TEST_DEVICE names, so that
// torch/gpu_check.sh repeats them on a GPU, and build.sh test on the protected device. A missing device fails the test.
func Device(t testing.TB) torch.Device {
	t.Helper()
	name := os.Getenv("OPENMANUS_TEST_DEVICE")
	if name == "" {
		return torch.Device{}
	}
	d, err := torch.ParseDevice(name)
	if err != nil {
		t.Fatalf("OPENMANUS_TEST_DEVICE: %v", err)
	}
	return d
}
