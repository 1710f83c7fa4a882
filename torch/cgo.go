package torch

/*
#cgo CFLAGS: -I${SRCDIR}
#cgo LDFLAGS: -L${SRCDIR}/link -ldl
#cgo LDFLAGS: -Wl,-rpath,$ORIGIN/../lib/openmanus -Wl,-rpath,$ORIGIN/lib -Wl,-rpath,${SRCDIR}/../build/lib
#include "openmanus_torch.h"
*/
import "C"

import "unsafe"

// Slices of int are passed to C as int64_t without a copy, so int must have 8 bytes.
const _ = uint(unsafe.Sizeof(int(0))-8) + uint(8-unsafe.Sizeof(int(0)))

// check frees the error message msg and panics if msg is not nil. Run turns the panic into an *Error.
func check(op string, msg *C.char, operands ...Tensor) {
	if msg != nil {
		Fail(op, takeText(msg), operands...)
	}
}

// result returns the output of an operation as a tensor of the first operand's thread.
func result(op string, msg *C.char, out *C.om_tensor, operands ...Tensor) Tensor {
	check(op, msg, operands...)
	return operands[0].out(*out)
}

// cerror converts msg to an error, for calls outside Run. It frees msg.
func cerror(op string, msg *C.char) error {
	if msg == nil {
		return nil
	}
	return &Error{Op: op, Msg: takeText(msg)}
}

// takeText returns the text of a message and frees it.
func takeText(msg *C.char) string {
	defer C.om_free_string(msg)
	return C.GoString(msg)
}

// dims returns a shape or another list of integers as C arguments.
func dims[T int | int64](list []T) (*C.int64_t, C.int64_t) {
	return (*C.int64_t)(unsafe.Pointer(unsafe.SliceData(list))), C.int64_t(len(list))
}

// flatten concatenates lists. lists[i] is ids[offsets[i]:offsets[i+1]] of the result.
func flatten(lists [][]int32) (ids []int32, offsets []int) {
	offsets = []int{0}
	for _, list := range lists {
		ids = append(ids, list...)
		offsets = append(offsets, len(ids))
	}
	return ids, offsets
}
