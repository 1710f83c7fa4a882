// Package mmap maps whole files for reading. Its functions are safe for concurrent
// use.
package mmap

import (
	"fmt"
	"math"
	"os"
	"syscall"
)

// File maps a whole regular file for reading. The mapping stays valid until
// syscall.Munmap. An empty file gives a nil slice.
func File(path string) ([]byte, error) {
	// Check before opening: opening a named pipe would wait for a writer.
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err = f.Stat(); err != nil {
		return nil, err
	}
	size := st.Size()
	if size == 0 {
		return nil, nil
	}
	if size > math.MaxInt {
		return nil, fmt.Errorf("%s: %d bytes exceed the address space of this machine", path, size)
	}
	m, err := syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return m, nil
}
