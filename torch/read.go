package torch

// #include "openmanus_torch.h"
import "C"

import "unsafe"

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

func toSlice[T any](t Tensor, op string, dt DType) []T { return readElements[T](t, op, dt, t.Numel()) }

// readElements converts the elements to dt and copies them into n values of type T.
func readElements[T any](t Tensor, op string, dt DType, n int) []T {
	v := make([]T, n)
	check(op, C.om_to_data(t.in(op), C.int64_t(dt), unsafe.Pointer(unsafe.SliceData(v)), C.int64_t(t.Numel()*dt.Size())), t)
	return v
}

// Item returns the value of a tensor with one element.
func (t Tensor) Item() float64 {
	var v C.double
	check("Item", C.om_item(t.in("Item"), &v), t)
	return float64(v)
}
