// Package ompenv sets OMP_NUM_THREADS before gotorch's package initialisation reads it.
//
// If the variable is unset, gotorch sets libtorch's threads to NumCPU/2, which is 0 on one CPU and ends the process
// before main. Go initialises packages in the order of their import paths as soon as their imports are initialised. This
// path sorts before gotorch's, and gotorch imports every package that this one imports, so this package comes first.
// Package torch unsets the variable again, so that child processes do not inherit it.
package ompenv

import (
	"os"
	"runtime"
)

// Set reports whether this package set OMP_NUM_THREADS.
var Set bool

func init() {
	if os.Getenv("OMP_NUM_THREADS") != "" || os.Getenv("MKL_NUM_THREADS") != "" {
		return
	}
	Set = os.Setenv("OMP_NUM_THREADS", digits(runtime.NumCPU())) == nil
}

// digits replaces strconv.Itoa, because a further import could delay the initialisation of this package.
func digits(n int) string {
	if n < 1 {
		n = 1
	}
	var b []byte
	for ; n > 0; n /= 10 {
		b = append([]byte{byte('0' + n%10)}, b...)
	}
	return string(b)
}
