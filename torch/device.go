package torch

// #include "openmanus_torch.h"
import "C"

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// Device is the place where tensors are stored and computed: the CPU (the zero value), or a CUDA GPU.
type Device struct {
	CUDA  bool
	Index int // number of the GPU; 0 for the CPU
}

func (d Device) String() string {
	if d.CUDA {
		return "cuda:" + strconv.Itoa(d.Index)
	}
	return "cpu"
}

// c returns the kind and the index of the device for the C interface.
func (d Device) c() (C.int64_t, C.int64_t) {
	if d.CUDA {
		return C.OM_CUDA, C.int64_t(d.Index)
	}
	return C.OM_CPU, 0
}

// ParseDevice reads cpu, cuda, cuda:N, or auto, which selects AutoDevice. A missing GPU is an error, without a fallback to the
// CPU. Parsing a GPU's name loads libtorch_cuda. Parse the name before the first backward pass on the CPU: libtorch's autograd
// does not accept new devices afterwards.
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

// AutoDevice returns the first usable GPU, or the CPU. The error is non-nil if the machine has a GPU that cannot be used.
func AutoDevice() (Device, error) {
	d, err := cudaDevice(0)
	gpus, _ := filepath.Glob("/dev/nvidia[0-9]*") // devices of NVIDIA's driver; Glob fails only for an invalid pattern
	if len(gpus) == 0 {
		err = nil
	}
	return d, err
}

func cudaDevice(i int) (Device, error) {
	n, err := cudaCount()
	if err != nil {
		return Device{}, fmt.Errorf("torch: no CUDA device: %w; use --device cpu, or, where PyTorch %s with CUDA is installed, "+
			"run first, in the source folder: eval \"$(torch/gpu_check.sh --env)\" (it builds against that PyTorch and sets LD_LIBRARY_PATH for build/openmanus; an installed program computes on the CPU only)",
			err, supportedLibtorch)
	}
	if i >= n {
		return Device{}, fmt.Errorf("torch: device cuda:%d does not exist: this machine has %d CUDA device(s)", i, n)
	}
	return Device{CUDA: true, Index: i}, nil
}

// cudaCount counts the devices once; the count does not change while the program runs.
var cudaCount = sync.OnceValues(func() (int, error) {
	if err := load(); err != nil {
		return 0, err
	}
	var n C.int64_t
	if msg := C.om_cuda_count(&n); msg != nil {
		return 0, errors.New(takeText(msg))
	}
	return int(n), nil
})

// cpuLevel returns the instruction set that the fused kernels use: 4 is AMX,
// 3 AVX-512 with bfloat16 products, 2 AVX-512, 1 AVX2, 0 the baseline.
func cpuLevel() int {
	mustLoad()
	return int(C.om_cpu_level())
}

// limitCPULevel caps cpuLevel, to test the kernels of lower levels.
func limitCPULevel(level int) {
	mustLoad()
	C.om_set_cpu_level_limit(C.int64_t(level))
}
