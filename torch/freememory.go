package torch

// #include <malloc.h>
import "C"

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// FreeMemory estimates the bytes that the process may still allocate on the
// host: the smaller of the kernel's MemAvailable and the space left under the
// control group's limit. ok is false if neither can be read.
func FreeMemory() (bytes int64, ok bool) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	if _, available, found := strings.Cut(string(text), "MemAvailable:"); found {
		_, err = fmt.Sscan(available, &bytes)
		bytes, ok = bytes<<10, err == nil // converts KiB to bytes
	}
	limit, used := cgroupNumber("memory.max"), cgroupNumber("memory.current")
	if limit > 0 && used >= 0 && (!ok || limit-used < bytes) {
		return max(limit-used, 0), true
	}
	return bytes, ok
}

// TrimHost returns memory that libtorch has freed on the host to the system. The C library otherwise keeps tensors of up to 32 MB for
// later allocations, so that the process stays as large as it was while it had a whole model.
func TrimHost() { C.malloc_trim(0) }

// cgroupNumber reads a number from a file of the process's control group
// (version 2), at its path inside a container. It returns -1 if the file is missing or sets no limit.
func cgroupNumber(name string) int64 {
	b, err := os.ReadFile("/sys/fs/cgroup/" + name)
	if err != nil {
		return -1
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return -1 // "max": no limit
	}
	return n
}
