package torch

// #include "openmanus_torch.h"
import "C"

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// Device is where tensors lie and are computed: the CPU (the zero value), or a CUDA GPU.
type Device struct {
	CUDA  bool
	Index int // of the GPU; 0 for the CPU
}

func (d Device) String() string {
	if d.CUDA {
		return "cuda:" + strconv.Itoa(d.Index)
	}
	return "cpu"
}

// c gives the device as the C header wants it.
func (d Device) c() (C.int64_t, C.int64_t) {
	if d.CUDA {
		return C.OM_CUDA, C.int64_t(d.Index)
	}
	return C.OM_CPU, 0
}

// ParseDevice reads cpu, cuda, cuda:N, or auto, which is AutoDevice. A GPU that is not there is an error, never
// replaced by the CPU. Asking for a GPU loads libtorch_cuda; do it before the first backward pass on the CPU, after
// which libtorch takes up no new devices.
func ParseDevice(s string) (Device, error) {
	switch {
	case s == "cpu":
		return Device{}, nil
	case s == "auto":
		d, _ := AutoDevice()
		return d, nil
	case s == "cuda":
		return cudaDevice(0)
	case strings.HasPrefix(s, "cuda:"):
		i, err := strconv.Atoi(strings.TrimPrefix(s, "cuda:"))
		if err != nil || i < 0 {
			return Device{}, fmt.Errorf("torch: device %q: the part after cuda: must be the number of a GPU", s)
		}
		return cudaDevice(i)
	}
	return Device{}, fmt.Errorf("torch: unknown device %q; use cpu, cuda, cuda:N or auto", s)
}

// AutoDevice picks the first GPU where there is one and the CPU elsewhere. The error says why it is the CPU; a machine
// without a GPU has nothing to say.
func AutoDevice() (Device, error) {
	d, err := cudaDevice(0)
	if err != nil && !hasGPU() {
		err = nil
	}
	return d, err
}

// hasGPU reports whether NVIDIA's driver shows a GPU, usable or not.
func hasGPU() bool {
	found, _ := filepath.Glob("/dev/nvidia[0-9]*") // the pattern is well formed
	return len(found) > 0
}

func cudaDevice(i int) (Device, error) {
	n, err := cudaCount()
	if err != nil {
		return Device{}, fmt.Errorf("torch: no CUDA device: %w; use --device cpu, or, where PyTorch %s with CUDA is installed, "+
			"run first, in the source folder: eval \"$(torch/gpu_check.sh --env)\" (it builds against that PyTorch and sets LD_LIBRARY_PATH)",
			err, supportedLibtorch)
	}
	if i >= n {
		return Device{}, fmt.Errorf("torch: there is no device cuda:%d; this machine has %d CUDA device(s)", i, n)
	}
	return Device{CUDA: true, Index: i}, nil
}

// cudaCount asks once: neither a driver nor a GPU appears while the program runs.
var cudaCount = sync.OnceValues(func() (int, error) {
	var n C.int64_t
	if msg := C.om_cuda_count(&n); msg != nil {
		defer C.om_free_string(msg)
		return 0, fmt.Errorf("%s", C.GoString(msg))
	}
	return int(n), nil
})
