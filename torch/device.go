package torch

// #include <stdlib.h>
// #include "openmanus_torch.h"
import "C"

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"unsafe"
)

// Device is the place where tensors are stored and computed: the CPU (the zero value), a CUDA GPU, or the protected device.
type Device struct {
	CUDA  bool
	Index int // number of the GPU; 0 for the other devices

	// Protected is a device for tests that stands for a GPU where there is none. It computes on the CPU, but host code that
	// accesses its memory ends with SIGSEGV, and it counts its operations and transfers.
	Protected bool
}

// IsCPU reports whether d is the CPU.
func (d Device) IsCPU() bool { return d == Device{} }

func (d Device) String() string {
	switch {
	case d.CUDA:
		return "cuda:" + strconv.Itoa(d.Index)
	case d.Protected:
		return "protected"
	}
	return "cpu"
}

// c returns the kind and the index of the device for the C interface.
func (d Device) c() (C.int64_t, C.int64_t) {
	switch {
	case d.CUDA:
		return C.OM_CUDA, C.int64_t(d.Index)
	case d.Protected:
		return C.OM_PROTECTED, 0
	}
	return C.OM_CPU, 0
}

// ParseDevice reads cpu, cuda, cuda:N, auto, which selects AutoDevice, or protected. A missing GPU is an error, without a
// fallback to the CPU. Parsing a GPU's name loads libtorch_cuda. Parse the name before the first backward pass on the CPU:
// libtorch's autograd does not accept new devices afterwards.
func ParseDevice(s string) (Device, error) {
	switch {
	case s == "cpu":
		return Device{}, nil
	case s == "auto":
		d, _ := AutoDevice()
		return d, nil
	case s == "protected":
		_, err := deviceCount(C.OM_PROTECTED)
		return Device{Protected: err == nil}, err
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
		return Device{}, fmt.Errorf("torch: no CUDA device: %w; use --device cpu, or install NVIDIA's driver, run ./build.sh cuda in the source folder and use "+
			"build/openmanus (an installed program computes on the CPU only)", err)
	}
	if i >= n {
		return Device{}, fmt.Errorf("torch: device cuda:%d does not exist: this machine has %d CUDA device(s)", i, n)
	}
	return Device{CUDA: true, Index: i}, nil
}

// cudaCount counts the devices once; the count does not change while the program runs.
var cudaCount = sync.OnceValues(func() (int, error) { return deviceCount(C.OM_CUDA) })

// useKernels prepares the kernels of CUDA devices.
func useKernels() error {
	if kernelsOff() {
		return nil
	}
	if msg := C.om_use_kernels(); msg != nil {
		return fmt.Errorf("torch: the kernels for GPUs cannot be used: %s; set OPENMANUS_KERNELS=off to compute without them", takeText(msg))
	}
	return nil
}

// compileKernels compiles the kernels for an architecture of NVIDIA, such as sm_90, and returns the size of the result in bytes.
// It needs libnvrtc, but no GPU.
func compileKernels(architecture string) (int, error) {
	if err := load(); err != nil {
		return 0, err
	}
	a := C.CString(architecture)
	defer C.free(unsafe.Pointer(a))
	var n C.int64_t
	if msg := C.om_compile_kernels(a, &n); msg != nil {
		return 0, errors.New(takeText(msg))
	}
	return int(n), nil
}

// deviceCount loads the library of a kind of device and counts the devices.
func deviceCount(kind C.int64_t) (int, error) {
	if err := load(); err != nil {
		return 0, err
	}
	var n C.int64_t
	if msg := C.om_device_count(kind, &n); msg != nil {
		return 0, errors.New(takeText(msg))
	}
	return int(n), nil
}

// Counts is what the protected device has done: operations other than views and allocations, copies from the host, and
// copies to the host. On a GPU these are kernel launches, submitted copies, and waits for all submitted work.
type Counts struct{ Operations, Uploads, Downloads int }

// ProtectedCounts returns the counts since the device was loaded. It panics if it is not loaded.
func ProtectedCounts() Counts {
	mustLoad()
	var c C.om_counts
	if msg := C.om_protected_counts(&c); msg != nil {
		panic("torch: " + takeText(msg))
	}
	return Counts{int(c.operations), int(c.uploads), int(c.downloads)}
}

// ProtectedTrace calls f and returns the names of the operations that the protected device computes meanwhile.
func ProtectedTrace(f func()) []string {
	trace := func(on bool) string {
		var names *C.char
		if msg := C.om_protected_trace(cbool(on), &names); msg != nil {
			panic("torch: " + takeText(msg))
		}
		return C.GoString(names)
	}
	mustLoad()
	trace(true)
	f()
	return strings.Fields(trace(false))
}

// instructionSets are the names of the levels of cpuLevel, from -1.
var instructionSets = []string{"none", "baseline", "AVX2", "AVX-512", "AVX-512 BF16", "AMX"}

// InstructionSet returns the name of the CPU instructions that the fused kernels use: "baseline", "AVX2", "AVX-512",
// "AVX-512 BF16" (with products in bfloat16) or "AMX"; "none" if the kernels are off.
func InstructionSet() string { return instructionSets[cpuLevel()+1] }

// cpuLevel returns the level of InstructionSet: 4 is AMX, 0 the baseline, -1 none.
func cpuLevel() int {
	mustLoad()
	return int(C.om_cpu_level())
}

// limitCPULevel caps cpuLevel, to test the kernels of lower levels.
func limitCPULevel(level int) {
	mustLoad()
	C.om_set_cpu_level_limit(C.int64_t(level))
}
