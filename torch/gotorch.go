package torch

// #include "openmanus_torch.h"
import "C"

import (
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"github.com/wangkuiyi/gotorch"
)

// gotorch frees its tensors by finalizers, which may run during a call that uses them. So nothing of gotorch lives longer
// here than one call: operands are lent without a finalizer, and a result's finalizer is taken away before
// anything else happens.

// raw lends a tensor to gotorch.
func raw(t Tensor) gotorch.Tensor {
	return gotorch.Tensor{T: (*unsafe.Pointer)(&t.h.ptr)}
}

// disown takes a result from gotorch.
func disown(g gotorch.Tensor) C.om_tensor {
	runtime.SetFinalizer(g.T, nil)
	p := C.om_tensor(*g.T)
	C.om_track(p)
	return p
}

// viaGotorch makes one gotorch call; the operands, the first of which names the thread, were checked with in before.
func viaGotorch(op string, call func() gotorch.Tensor, operands ...Tensor) Tensor {
	defer rethrow(op, operands)
	p := disown(call())
	runtime.KeepAlive(operands)
	return operands[0].out(p)
}

// rethrow turns gotorch's panics, which are the text of a C++ exception, into ours.
func rethrow(op string, operands []Tensor) {
	switch r := recover().(type) {
	case nil:
	case string:
		if strings.HasPrefix(r, "torch: ") { // ours
			panic(r)
		}
		msg, _, _ := strings.Cut(r, "\nException raised from ")
		fail(op, strings.TrimSpace(msg), operands...)
	case error:
		panic(fmt.Errorf("torch: %s: %w", op, r))
	default:
		panic(r)
	}
}
