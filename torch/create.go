package torch

// #include "openmanus_torch.h"
import "C"

import (
	"fmt"
	"math/rand/v2"
	"unsafe"
)

// Empty returns an uninitialized tensor.
func (s *Scope) Empty(dt DType, shape ...int) Tensor {
	th := s.must()
	var out C.om_tensor
	d, n := dims(shape)
	kind, index := th.device.c()
	check("Empty", C.om_empty(C.int64_t(dt), d, n, kind, index, &out))
	return th.adopt(out)
}

// Full returns a tensor whose elements are v.
func (s *Scope) Full(v float64, dt DType, shape ...int) Tensor {
	th := s.must()
	var out C.om_tensor
	d, n := dims(shape)
	kind, index := th.device.c()
	check("Full", C.om_full(C.double(v), C.int64_t(dt), d, n, kind, index, &out))
	return th.adopt(out)
}

// Zeros returns a tensor whose elements are 0.
func (s *Scope) Zeros(dt DType, shape ...int) Tensor { return s.Full(0, dt, shape...) }

// Ones returns a tensor whose elements are 1.
func (s *Scope) Ones(dt DType, shape ...int) Tensor { return s.Full(1, dt, shape...) }

// RandN returns a float32 tensor of standard normal numbers. The same seed and size give the same numbers on every machine;
// libtorch's numbers may differ between instruction sets.
func (s *Scope) RandN(seed uint64, shape ...int) Tensor {
	r := rand.New(rand.NewPCG(seed, 0x6f70656e6d616e75)) // an arbitrary constant selects the random stream of RandN
	v := make([]float32, count("RandN", shape))
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return s.Float32s(v, shape...)
}

// Float32s copies v into a tensor of the given shape.
func (s *Scope) Float32s(v []float32, shape ...int) Tensor {
	return fromSlice(s, "Float32s", v, Float32, shape)
}

// Float64s copies v into a tensor of the given shape.
func (s *Scope) Float64s(v []float64, shape ...int) Tensor {
	return fromSlice(s, "Float64s", v, Float64, shape)
}

// Int64s copies v into a tensor of the given shape.
func (s *Scope) Int64s(v []int64, shape ...int) Tensor {
	return fromSlice(s, "Int64s", v, Int64, shape)
}

// Int32s copies v into a tensor of the given shape.
func (s *Scope) Int32s(v []int32, shape ...int) Tensor {
	return fromSlice(s, "Int32s", v, Int32, shape)
}

// Bools copies v into a tensor of the given shape.
func (s *Scope) Bools(v []bool, shape ...int) Tensor {
	return fromSlice(s, "Bools", v, Bool, shape)
}

// Bytes copies v, which holds elements of type dt in row-major order and the machine's byte order.
func (s *Scope) Bytes(v []byte, dt DType, shape ...int) Tensor {
	return fromSlice(s, "Bytes", v, dt, shape)
}

func fromSlice[T any](s *Scope, op string, v []T, dt DType, shape []int) Tensor {
	size := len(v) * int(unsafe.Sizeof(*new(T)))
	if want := count(op, shape) * dt.Size(); want != size {
		Fail(op, fmt.Sprintf("%d bytes for shape %v of %v, which takes %d", size, shape, dt, want))
	}
	th := s.must()
	var out C.om_tensor
	d, n := dims(shape)
	kind, index := th.device.c()
	check(op, C.om_from_data(unsafe.Pointer(unsafe.SliceData(v)), C.int64_t(size), C.int64_t(dt), d, n, kind, index, &out))
	return th.adopt(out)
}

// count returns the number of elements of a shape.
func count(op string, shape []int) int {
	for _, d := range shape {
		if d < 0 {
			Fail(op, fmt.Sprintf("shape %v has a negative size", shape))
		}
	}
	return product(shape)
}
