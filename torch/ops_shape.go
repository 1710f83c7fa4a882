package torch

// #include "openmanus_torch.h"
import "C"

import (
	"runtime"

	"github.com/wangkuiyi/gotorch"
)

// Transpose returns a view with two dimensions swapped.
func (t Tensor) Transpose(a, b int) Tensor {
	return t.gotorch1("Transpose", func(g gotorch.Tensor) gotorch.Tensor {
		return gotorch.Transpose(g, int64(a), int64(b))
	})
}

// View returns a view of t with another shape; one size may be -1. It fails if the strides do not allow it.
func (t Tensor) View(shape ...int) Tensor {
	if len(shape) == 0 {
		return t.Reshape() // gotorch takes the address of the first size
	}
	return t.gotorch1("View", func(g gotorch.Tensor) gotorch.Tensor { return gotorch.View(g, int64s(shape)...) })
}

// Reshape returns t with another shape, as a copy if the strides do not allow a view.
func (t Tensor) Reshape(shape ...int) Tensor {
	var out C.om_tensor
	d, n := dims(shape)
	return result("Reshape", C.om_reshape(t.in("Reshape"), d, n, &out), &out, t)
}

// Narrow returns a view of the elements start … start+length-1 of dim.
func (t Tensor) Narrow(dim, start, length int) Tensor {
	var out C.om_tensor
	return result("Narrow", C.om_narrow(t.in("Narrow"), C.int64_t(dim), C.int64_t(start), C.int64_t(length), &out), &out, t)
}

// IndexSelect returns the elements of dim at the indices idx (int64 or int32, one dim).
func (t Tensor) IndexSelect(dim int, idx Tensor) Tensor {
	return t.gotorch2("IndexSelect", func(a, b gotorch.Tensor) gotorch.Tensor {
		return gotorch.IndexSelect(a, int64(dim), b)
	}, idx)
}

// Gather returns the elements of t along dim at the indices idx (int64), in the shape of idx.
func (t Tensor) Gather(dim int, idx Tensor) Tensor {
	var out C.om_tensor
	return result("Gather", C.om_gather(t.in("Gather"), C.int64_t(dim), idx.in("Gather"), &out), &out, t, idx)
}

// Embedding returns the rows of w [V,D] at the indices ids [...], with shape [...,D].
func Embedding(w, ids Tensor) Tensor {
	var out C.om_tensor
	return result("Embedding", C.om_embedding(w.in("Embedding"), ids.in("Embedding"), &out), &out, w, ids)
}

// Cat concatenates tensors along dim.
func Cat(ts []Tensor, dim int) Tensor {
	if len(ts) == 0 {
		Fail("Cat", "no tensors")
	}
	ps := make([]C.om_tensor, len(ts))
	for i, t := range ts {
		ps[i] = t.in("Cat")
	}
	var out C.om_tensor
	return result("Cat", C.om_cat(&ps[0], C.int64_t(len(ps)), C.int64_t(dim), &out), &out, ts...)
}

// Stack joins tensors of equal shape along a new dim.
func Stack(ts []Tensor, dim int) Tensor {
	if len(ts) == 0 {
		Fail("Stack", "no tensors")
	}
	gs := make([]gotorch.Tensor, len(ts))
	for i, t := range ts {
		t.in("Stack")
		gs[i] = raw(t)
	}
	out := viaGotorch("Stack", func() gotorch.Tensor { return gotorch.Stack(gs, int64(dim)) }, ts...)
	runtime.KeepAlive(gs)
	return out
}

// To converts t to another element type. If t has that type already, the result is a new handle to t.
func (t Tensor) To(dt DType) Tensor {
	var out C.om_tensor
	return result("To", C.om_to_dtype(t.in("To"), C.int64_t(dt), &out), &out, t)
}

// ToDevice copies t to another device. If t is on that device already, the result is a new handle to t.
func (t Tensor) ToDevice(d Device) Tensor {
	var out C.om_tensor
	kind, index := d.c()
	return result("ToDevice", C.om_to_device(t.in("ToDevice"), kind, index, &out), &out, t)
}

// Clone copies t to new memory.
func (t Tensor) Clone() Tensor { return t.unary("Clone", C.OM_CLONE) }

// Contiguous returns t in row-major memory. If t is contiguous already, the result is a new handle to t.
func (t Tensor) Contiguous() Tensor { return t.unary("Contiguous", C.OM_CONTIGUOUS) }

func int64s(v []int) []int64 {
	out := make([]int64, len(v))
	for i, x := range v {
		out[i] = int64(x)
	}
	return out
}
