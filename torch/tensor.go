package torch

// #include "openmanus_torch.h"
import "C"

import (
	"fmt"
	"slices"
	"sync/atomic"
)

// Tensor is a reference to a tensor; copies refer to the same tensor. The zero Tensor is called none. It
// means that an operand is absent, such as a missing bias or a gradient that was not computed.
type Tensor struct{ h *handle }

// handle is the Go side of one om_tensor. Only the thread t may use its fields, except meta.
type handle struct {
	ptr  C.om_tensor // nil after the tensor was freed
	t    *Thread
	home *home
	at   int // index in home.hs
	meta atomic.Pointer[meta]
	site site
}

// meta holds the properties of a tensor that never change.
type meta struct {
	shape  []int
	dtype  DType
	device Device
}

// adopt puts a new tensor into the innermost scope.
func (t *Thread) adopt(p C.om_tensor) Tensor {
	if t.cur == nil {
		C.om_free(&p, 1)
		panic("torch: an operation outside Run")
	}
	h := &handle{ptr: p, t: t}
	t.cur.add(h)
	remember(h)
	return Tensor{h}
}

// The method in returns t's pointer as an operand of the operation named op. It panics if t was freed or is used outside Run.
func (t Tensor) in(op string) C.om_tensor {
	if t.h == nil {
		Fail(op, "an operand is none (the zero Tensor)")
	}
	if t.h.ptr == nil {
		panic("torch: " + op + " of a tensor that was freed" + t.h.site.text())
	}
	if debugging && !t.h.t.here() {
		panic("torch: " + op + " of a tensor outside its thread")
	}
	if t.h.t.cur == nil {
		panic("torch: " + op + " outside Run")
	}
	return t.h.ptr
}

// opt returns the pointer of an optional operand, or nil for the zero Tensor.
func (t Tensor) opt(op string) C.om_tensor {
	if t.h == nil {
		return nil
	}
	return t.in(op)
}

// out wraps the result p of an operation on t.
func (t Tensor) out(p C.om_tensor) Tensor { return t.h.t.adopt(p) }

// None reports whether t is the zero Tensor.
func (t Tensor) None() bool { return t.h == nil }

// info returns t's properties. It may be called outside Run.
func (t Tensor) info(op string) *meta {
	if t.h == nil {
		Fail(op, "the tensor is none (the zero Tensor)")
	}
	if m := t.h.meta.Load(); m != nil {
		return m
	}
	if t.h.ptr == nil {
		panic("torch: " + op + " of a tensor that was freed" + t.h.site.text())
	}
	var i C.om_info_t
	check(op, C.om_info(t.h.ptr, &i))
	m := &meta{shape: make([]int, i.ndim), dtype: DType(i.dtype)}
	for d := range m.shape {
		m.shape[d] = int(i.dims[d])
	}
	m.device = Device{CUDA: i.device_kind == C.OM_CUDA, Index: int(i.device_index), Protected: i.device_kind == C.OM_PROTECTED}
	t.h.meta.Store(m)
	return m
}

// Shape returns the size of each dimension, in a new slice.
func (t Tensor) Shape() []int { return slices.Clone(t.info("Shape").shape) }

// Dim returns the number of dimensions.
func (t Tensor) Dim() int { return len(t.info("Dim").shape) }

// Size returns the size of dimension i; a negative i counts from the last.
func (t Tensor) Size(i int) int {
	s := t.info("Size").shape
	d := i
	if d < 0 {
		d += len(s)
	}
	if d < 0 || d >= len(s) {
		Fail("Size", fmt.Sprintf("dimension %d is out of range", i), t)
	}
	return s[d]
}

// Numel returns the number of elements.
func (t Tensor) Numel() int { return product(t.info("Numel").shape) }

// DType returns the type of the elements.
func (t Tensor) DType() DType { return t.info("DType").dtype }

// Device returns the device that holds the tensor.
func (t Tensor) Device() Device { return t.info("Device").device }

// String describes the tensor without its elements, as float32[2 3].
func (t Tensor) String() string {
	switch {
	case t.h == nil:
		return "none"
	case t.h.ptr == nil:
		return "freed"
	}
	m := t.info("String")
	s := fmt.Sprintf("%v%v", m.dtype, m.shape)
	if !m.device.IsCPU() {
		s += " on " + m.device.String()
	}
	return s
}

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}
