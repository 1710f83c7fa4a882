package run

import (
	"errors"
	"fmt"

	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
)

// OpenThread starts the thread of a device: "cpu", "cuda:N", or for "auto" the
// first GPU, else the CPU.
func OpenThread(h *Host, name string) (*torch.Thread, error) {
	device, err := namedDevice(name)
	if err != nil {
		return nil, err
	}
	if isAuto(name) {
		var why error
		if device, why = torch.AutoDevice(); why != nil {
			h.Log.Warn("using the CPU although there is a GPU", "why", why)
		} else {
			h.Log.Info("device", "name", device.String())
		}
	}
	t, err := torch.NewThread(device)
	if err != nil {
		return nil, errext.With(errext.Native, "", fmt.Errorf("device %s: %w", device, err))
	}
	return t, nil
}

func isAuto(name string) bool { return name == "auto" || name == "" }

// namedDevice parses the name of a device. It returns the CPU for auto, and an
// error if there is no such device.
func namedDevice(name string) (torch.Device, error) {
	if isAuto(name) {
		return torch.Device{}, nil
	}
	device, err := torch.ParseDevice(name)
	if err != nil {
		return device, errext.With(errext.Native, "", fmt.Errorf("device %s: %w", name, err))
	}
	return device, nil
}

// ComputeDtype resolves model.compute_dtype on a device. auto is bfloat16 on a
// GPU and float32 on a CPU, where bfloat16 is several times slower on
// processors without AVX-512 or AMX.
func ComputeDtype(name, deviceName string) (string, error) {
	device, err := namedDevice(deviceName)
	if err != nil || name != "auto" {
		return name, err
	}
	if isAuto(deviceName) {
		device, _ = torch.AutoDevice() // OpenThread logs the reason for a CPU
	}
	if device.CUDA {
		return "bfloat16", nil
	}
	return "float32", nil
}

// ParseDtype parses a number format.
func ParseDtype(name string) (torch.DType, error) {
	dt, err := torch.ParseDType(name)
	return dt, errext.With(errext.Input, "use float32 or bfloat16", err)
}

// Closers is a stack of functions that close what was opened.
type Closers []func() error

// Add pushes f.
func (c *Closers) Add(f func() error) { *c = append(*c, f) }

// AddFunc pushes f, which cannot fail.
func (c *Closers) AddFunc(f func()) {
	*c = append(*c, func() error { f(); return nil })
}

// Close calls the functions, the last one first, and joins their errors.
func (c Closers) Close() error {
	var errs []error
	for i := len(c) - 1; i >= 0; i-- {
		errs = append(errs, c[i]())
	}
	return errors.Join(errs...)
}
