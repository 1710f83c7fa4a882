package run

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/openmanus/openmanus/configs"
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
	if name == "auto" || name == "" {
		if _, why := torch.AutoDevice(); why != nil {
			h.Log.Warn("using the CPU although there is a GPU", "why", why)
		}
		h.Log.Info("device", "name", device.String())
	}
	t, err := torch.NewThread(device)
	if err != nil {
		return nil, errext.With(errext.Native, "", fmt.Errorf("device %s: %w", device, err))
	}
	return t, nil
}

// namedDevice parses the name of a device; "" is auto. It returns an error if the
// machine lacks the device.
func namedDevice(name string) (torch.Device, error) {
	device, err := torch.ParseDevice(cmp.Or(name, "auto"))
	if err != nil {
		err = errext.With(errext.Native, "", fmt.Errorf("device %s: %w", name, err))
	}
	return device, err
}

// ComputeDtype resolves model.compute_dtype on a device. auto is bfloat16 on a
// GPU and float32 on a CPU, where bfloat16 is several times slower on
// processors without AVX-512 or AMX.
func ComputeDtype(name, deviceName string) (string, error) {
	device, err := namedDevice(deviceName)
	switch {
	case err != nil || name != "auto":
		return name, err
	case device.CUDA:
		return "bfloat16", nil
	}
	return "float32", nil
}

// openDevice starts the thread of the device of a [model] section, and returns the
// compute dtype. The function that stops the thread is added to the parameter open.
func openDevice(h *Host, open *Closers, m configs.Model) (*torch.Thread, torch.DType, error) {
	dt, err := torch.ParseDType(m.ComputeDtype)
	if err != nil {
		return nil, dt, errext.With(errext.Input, "use float32 or bfloat16", err)
	}
	t, err := OpenThread(h, m.Device)
	if err != nil {
		return nil, dt, err
	}
	open.AddFunc(t.Close)
	return t, dt, nil
}

// Closers is a stack of functions that close what was opened.
type Closers []func() error

// Add pushes f.
func (c *Closers) Add(f func() error) { *c = append(*c, f) }

// AddFunc pushes f, which cannot fail.
func (c *Closers) AddFunc(f func()) {
	*c = append(*c, func() error { f(); return nil })
}

// Close calls the functions in reverse order and joins their errors.
func (c Closers) Close() error {
	var errs []error
	for _, f := range slices.Backward(c) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}
