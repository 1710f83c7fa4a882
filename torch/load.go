package torch

// #include <stdlib.h>
// #include "load.h"
// #include "openmanus_torch.h"
import "C"

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"
)

// spins is the number of times that a thread of libgomp polls for work before it sleeps. The polls take 20 to 200 µs, longer
// than the usual gap between two operations. libgomp's default is several milliseconds; if other processes use the same
// cores, a spinning thread takes the CPU from the thread that it waits for, and operations become several times slower.
const spins = "2000"

// loaded reports whether the native libraries are loaded.
var loaded atomic.Bool

// load loads the native libraries when it is first called, and checks that they match the program.
var load = sync.OnceValue(func() error {
	if os.Getenv("GOMP_SPINCOUNT") == "" && os.Getenv("OMP_WAIT_POLICY") == "" {
		// libgomp reads its settings while it is loaded. Child processes must not inherit this one.
		if err := os.Setenv("GOMP_SPINCOUNT", spins); err != nil {
			return fmt.Errorf("torch: set GOMP_SPINCOUNT: %w", err)
		}
		defer func() { _ = os.Unsetenv("GOMP_SPINCOUNT") }() // cannot fail for a valid name
	}
	if msg := C.om_load(); msg != nil {
		defer C.free(unsafe.Pointer(msg))
		return fmt.Errorf("torch: the native libraries cannot be loaded: %s; "+
			"install openmanus again, or in its source folder run ./build.sh", C.GoString(msg))
	}
	loaded.Store(true)
	if err := version().check(abi); err != nil {
		return err
	}
	return applyKernels(os.Getenv("OPENMANUS_KERNELS"))
})

// kernelsOff reports whether the environment variable OPENMANUS_KERNELS switches the fused kernels off, on the CPU and on GPUs.
// ATen's operations compute in their place. The tests run on that path too.
func kernelsOff() bool { return os.Getenv("OPENMANUS_KERNELS") == "off" }

// applyKernels applies the value of OPENMANUS_KERNELS.
func applyKernels(value string) error {
	switch value {
	case "", "on":
		return nil
	case "off":
		C.om_set_cpu_level_limit(-1)
		return nil
	}
	return fmt.Errorf("torch: OPENMANUS_KERNELS is %q; want on or off", value)
}

// mustLoad is load for functions without an error result.
func mustLoad() {
	if err := load(); err != nil {
		panic(err)
	}
}
