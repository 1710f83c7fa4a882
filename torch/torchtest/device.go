package torchtest

import (
	"os"
	"testing"

	"github.com/openmanus/openmanus/torch"
)

// Device is where tests that can run anywhere compute: the CPU, or what OPENMANUS_TEST_DEVICE names, so that
// torch/gpu_check.sh repeats them on a GPU. A device that is not there fails the test.
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
