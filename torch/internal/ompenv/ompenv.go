// Package ompenv sets OMP_NUM_THREADS before gotorch's package initialisation reads it.
//
// gotorch asks libtorch for NumCPU/2 threads when that variable is unset, which is 0 on one CPU and ends the process
// before main. Go initialises the packages that are ready in the order of their import paths, and this path sorts
// before gotorch's; what it imports gotorch imports too, so it is never ready later. Package torch takes the variable
// away again, so that child processes do not inherit it.
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

// digits is strconv.Itoa, which would be one more package to wait for.
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
