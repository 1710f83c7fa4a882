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

// gotorch frees its tensors by finalizers, which may run during a call that uses the tensor. Therefore no gotorch value
// outlives one call: operands are passed without a finalizer, and a result's finalizer is removed at once.

// raw wraps t as a gotorch tensor without a finalizer.
func raw(t Tensor) gotorch.Tensor {
	return gotorch.Tensor{T: (*unsafe.Pointer)(&t.h.ptr)}
}

// disown removes the finalizer of a gotorch result and returns its pointer.
func disown(g gotorch.Tensor) C.om_tensor {
	runtime.SetFinalizer(g.T, nil)
	p := C.om_tensor(*g.T)
	C.om_track(p)
	return p
}

// viaGotorch makes one gotorch call. The caller has checked each operand with Tensor.in. The result's thread is the first operand's.
func viaGotorch(op string, call func() gotorch.Tensor, operands ...Tensor) Tensor {
	defer rethrow(op, operands)
	p := disown(call())
	runtime.KeepAlive(operands)
	return operands[0].out(p)
}

// rethrow converts a panic of gotorch, which carries the text of a C++ exception, to an opPanic.
func rethrow(op string, operands []Tensor) {
	switch r := recover().(type) {
	case nil:
	case string:
		if strings.HasPrefix(r, "torch: ") { // a panic of this package
			panic(r)
		}
		msg, _, _ := strings.Cut(r, "\nException raised from ")
		Fail(op, strings.TrimSpace(msg), operands...)
	case error:
		panic(fmt.Errorf("torch: %s: %w", op, r))
	default:
		panic(r)
	}
}
