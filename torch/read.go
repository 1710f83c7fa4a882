package torch

// #include "openmanus_torch.h"
import "C"

import (
	"io"
	"unsafe"
)

// ToFloat32s returns the elements in row-major order, converted to float32.
func (t Tensor) ToFloat32s() []float32 { return toSlice[float32](t, "ToFloat32s", Float32) }

// ToFloat64s returns the elements in row-major order, converted to float64.
func (t Tensor) ToFloat64s() []float64 { return toSlice[float64](t, "ToFloat64s", Float64) }

// ToInt32s returns the elements in row-major order, converted to int32.
func (t Tensor) ToInt32s() []int32 { return toSlice[int32](t, "ToInt32s", Int32) }

// ToInt64s returns the elements in row-major order, converted to int64.
func (t Tensor) ToInt64s() []int64 { return toSlice[int64](t, "ToInt64s", Int64) }

// ToBytes returns the elements in row-major order as they are in memory.
func (t Tensor) ToBytes() []byte {
	dt := t.DType()
	return readElements[byte](t, "ToBytes", dt, t.Numel()*dt.Size())
}

// partBytes is the size of the parts of WriteBytes.
const partBytes = 4 << 20

// WriteBytes writes the bytes of ToBytes to w, in parts of at most 4 MiB. The whole tensor is copied only if it is not contiguous.
func (t Tensor) WriteBytes(w io.Writer) error {
	dt, n := t.DType(), t.Numel()
	step := max(1, partBytes/dt.Size())
	flat := t.Reshape(n)
	part := make([]byte, min(n, step)*dt.Size())
	for at := 0; at < n; at += step {
		b := part[:min(step, n-at)*dt.Size()]
		flat.Narrow(0, at, len(b)/dt.Size()).read("WriteBytes", dt, unsafe.Pointer(unsafe.SliceData(b)), len(b))
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

func toSlice[T any](t Tensor, op string, dt DType) []T { return readElements[T](t, op, dt, t.Numel()) }

// readElements converts the elements to dt and copies them into n values of type T.
func readElements[T any](t Tensor, op string, dt DType, n int) []T {
	v := make([]T, n)
	t.read(op, dt, unsafe.Pointer(unsafe.SliceData(v)), t.Numel()*dt.Size())
	return v
}

// read converts the elements to dt and copies them to the n bytes at p.
func (t Tensor) read(op string, dt DType, p unsafe.Pointer, n int) {
	check(op, C.om_to_data(t.in(op), C.int64_t(dt), p, C.int64_t(n)), t)
}

// Item returns the value of a tensor with one element.
func (t Tensor) Item() float64 {
	var v C.double
	check("Item", C.om_item(t.in("Item"), &v), t)
	return float64(v)
}
