package torch

// #include "openmanus_torch.h"
import "C"

import (
	"context"
	"errors"
)

// Owner holds tensors and graphs that outlive a Run: parameters, optimiser state, a KV cache. Own
// and Release must be called inside Run on the owner's thread; Close may be called anywhere.
type Owner struct {
	home
	t      *Thread
	graphs []*Graph
	closed bool
}

// NewOwner returns an empty owner. Live lists its tensors under name.
func NewOwner(t *Thread, name string) *Owner {
	return &Owner{home: home{name: name}, t: t}
}

// Own moves tensors from their scope or owner to o. Zero Tensors are skipped.
func (o *Owner) Own(ts ...Tensor) {
	o.must()
	for _, t := range ts {
		if t.h == nil {
			continue
		}
		t.in("Own")
		if t.h.home == &o.home {
			continue
		}
		t.h.home.remove(t.h)
		o.add(t.h)
	}
}

// Release frees tensors of o now.
func (o *Owner) Release(ts ...Tensor) {
	o.must()
	for _, t := range ts {
		if t.h == nil {
			continue
		}
		t.in("Release")
		if t.h.home != &o.home {
			panic("torch: Release of a tensor that the owner " + o.name + " does not own")
		}
		h := t.h
		o.remove(h)
		forget(h)
		C.om_free(&h.ptr, 1)
		h.ptr = nil
	}
}

// Replace replaces each tensor of o by the result of f, computed without recording for gradients, and frees the
// old tensor. If f returns its argument, that tensor stays in o.
func (o *Owner) Replace(s *Scope, f func(Tensor) Tensor, ts ...*Tensor) {
	o.must()
	for _, t := range ts {
		if t.None() {
			continue
		}
		s.Do(func(s *Scope) {
			s.NoGrad(func() {
				if fresh := f(*t); fresh != *t {
					o.Own(fresh)
					o.Release(*t)
					*t = fresh
				}
			})
		})
	}
}

// To moves tensors of o to a device, one by one. It skips tensors that are on that device.
func (o *Owner) To(s *Scope, d Device, ts ...*Tensor) {
	o.Replace(s, func(t Tensor) Tensor {
		if t.Device() == d {
			return t
		}
		return t.Detach().ToDevice(d)
	}, ts...)
}

// Close frees every tensor and graph of o. Called outside Run, it waits for the thread. A second call does nothing
// (in debug builds it panics).
func (o *Owner) Close() {
	if o.t.here() {
		o.close()
		return
	}
	err := Run(context.Background(), o.t, func(*Scope) error {
		o.close()
		return nil
	})
	if errors.Is(err, ErrClosed) {
		<-o.t.gone
		o.close() // the thread has ended, so Close frees the tensors here
	}
}

func (o *Owner) close() {
	if debugging && o.closed {
		panic("torch: the owner " + o.name + " was closed twice")
	}
	o.closed = true
	o.freeGraphs()
	o.free()
}

func (o *Owner) must() {
	if debugging && !o.t.here() {
		panic("torch: the owner " + o.name + " was used outside its thread")
	}
	if o.closed {
		panic("torch: the owner " + o.name + " was used after Close")
	}
}
