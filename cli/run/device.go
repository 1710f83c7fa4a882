package run

import (
	"errors"
	"fmt"

	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
)

// OpenThread starts the thread of the device a user named.
func OpenThread(h *Host, name string) (*torch.Thread, error) {
	device, err := namedDevice(name)
	if err != nil {
		return nil, err
	}
	if isAuto(name) {
		var why error
		if device, why = torch.AutoDevice(); why != nil {
			h.Log.Warn("using the cpu, though there is a GPU", "why", why)
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

// namedDevice is the device a user named, the CPU for auto. One that is not
// there is an error.
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

// ComputeDtype is the number format that model.compute_dtype stands for on a
// device. auto is float32 on a CPU: bfloat16 needs half the memory there, but
// several times as long on processors without AVX-512 or AMX.
func ComputeDtype(name, deviceName string) (string, error) {
	device, err := namedDevice(deviceName)
	if err != nil || name != "auto" {
		return name, err
	}
	if isAuto(deviceName) {
		device, _ = torch.AutoDevice() // openThread says why it is the CPU
	}
	if device.CUDA {
		return "bfloat16", nil
	}
	return "float32", nil
}

// ParseDtype maps a number format of the command line or the configuration.
func ParseDtype(name string) (torch.DType, error) {
	dt, err := torch.ParseDType(name)
	return dt, errext.With(errext.Input, "use float32 or bfloat16", err)
}

// Closers undoes what was opened, last first.
type Closers []func() error

func (c *Closers) Add(f func() error) { *c = append(*c, f) }

func (c *Closers) AddFunc(f func()) {
	*c = append(*c, func() error { f(); return nil })
}

func (c Closers) Close() error {
	var errs []error
	for i := len(c) - 1; i >= 0; i-- {
		errs = append(errs, c[i]())
	}
	return errors.Join(errs...)
}
