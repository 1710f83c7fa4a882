package torch

// #define _GNU_SOURCE
// #include <dlfcn.h>
// #include <stddef.h>
// #include "openmanus_torch.h"
//
// // mallinfo2 is resolved at run time, because glibc before 2.33 lacks it.
// struct heap_info { size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost; };
// static size_t heap_bytes(void) {
//   struct heap_info (*info)(void) = (struct heap_info(*)(void))dlsym(RTLD_DEFAULT, "mallinfo2");
//   if (info == NULL) return 0;
//   struct heap_info m = info();
//   return m.uordblks + m.hblkhd;
// }
import "C"

import (
	"fmt"
	"os"
)

// LiveTensors returns the number of tensors that were made and not yet freed, on all threads.
func LiveTensors() int64 {
	n, _ := live()
	return n
}

// LiveBytes returns the size of the storages of live tensors; a shared storage is counted once. It
// excludes memory that only the autograd graph or libtorch's caches hold.
func LiveBytes() int64 {
	_, b := live()
	return b
}

func live() (tensors, nbytes int64) {
	if !loaded.Load() {
		return 0, 0
	}
	var n, b C.int64_t
	C.om_live(&n, &b)
	return int64(n), int64(b)
}

// HeapBytes returns the bytes that native code has allocated on the host. Unlike LiveBytes it includes tensors that only the
// autograd graph holds and memory other than tensors; unlike RSS it excludes freed memory. It returns 0 if glibc is older
// than 2.33.
func HeapBytes() int64 { return int64(C.heap_bytes()) }

// LiveInfo describes one live tensor.
type LiveInfo struct {
	Shape []int
	DType DType
	Home  string // the scope or owner that holds it
	Site  string // the line outside this package that made it
}

// RSS returns the resident memory of the process in bytes, or 0 if /proc cannot be read.
func RSS() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return 0
	}
	return resident * int64(os.Getpagesize())
}
