package torch

// #include "openmanus_torch.h"
import "C"

import "fmt"

// home is a set of tensors that are freed together: a scope or an owner.
type home struct {
	name  string
	depth int // depth of a scope, from 1 at the root; 0 for an owner
	hs    []*handle
}

func (m *home) add(h *handle) {
	h.home, h.at = m, len(m.hs)
	m.hs = append(m.hs, h)
}

func (m *home) remove(h *handle) {
	last := len(m.hs) - 1
	m.hs[h.at] = m.hs[last]
	m.hs[h.at].at = h.at
	m.hs[last] = nil
	m.hs = m.hs[:last]
	h.home = nil
}

// free frees everything in one call.
func (m *home) free() {
	if len(m.hs) == 0 {
		return
	}
	ps := make([]C.om_tensor, len(m.hs))
	for i, h := range m.hs {
		ps[i], h.ptr, h.home = h.ptr, nil, nil
		forget(h)
	}
	C.om_free(&ps[0], C.int64_t(len(ps)))
	m.hs = nil
}

// Scope owns the tensors made while it is the innermost open scope of its thread. Use it only on that thread.
type Scope struct {
	home
	t      *Thread
	parent *Scope
	closed bool
}

// open opens a scope inside the innermost one.
func (t *Thread) open() *Scope {
	s := &Scope{t: t, parent: t.cur}
	s.depth = 1
	if t.cur != nil {
		s.depth = t.cur.depth + 1
	}
	if debugging {
		s.name = fmt.Sprintf("scope %d", s.depth)
	}
	t.cur = s
	return s
}

func (s *Scope) close() {
	if debugging && s.closed {
		panic("torch: a scope was closed twice")
	}
	if s.t.cur != s {
		panic("torch: a scope was closed while another inside it is open")
	}
	s.t.cur = s.parent
	s.closed = true
	s.free()
}

// must panics if s is used after its end or, in debug builds, on another thread.
func (s *Scope) must() *Thread {
	if debugging && !s.t.here() {
		panic("torch: a scope was used outside its thread; only the function given to Run may use it")
	}
	if s.closed {
		panic("torch: a scope was used after its end")
	}
	return s.t
}

// Thread returns the thread of the scope.
func (s *Scope) Thread() *Thread { return s.t }

// Do calls f with a nested scope. Tensors made inside are freed when f returns or panics, except those passed to Keep.
func (s *Scope) Do(f func(s *Scope)) {
	in := s.must().open()
	defer in.close()
	f(in)
}

// Keep moves tensors out of s into the scope around s. Tensors of outer scopes and owners
// stay there. The root scope has no outer scope: give its tensors to an Owner.
func (s *Scope) Keep(ts ...Tensor) {
	s.must()
	for _, t := range ts {
		if t.h == nil {
			continue
		}
		t.in("Keep")
		if t.h.home.depth < s.depth {
			continue
		}
		if s.parent == nil {
			panic("torch: Keep in the root scope of Run, which has no outer scope; give the tensor to an Owner")
		}
		t.h.home.remove(t.h)
		s.parent.add(t.h)
	}
}

// NoGrad calls f with recording for gradients off.
func (s *Scope) NoGrad(f func()) {
	s.must()
	was := setGradMode(false)
	defer setGradMode(was)
	f()
}

// GradEnabled reports whether operations are recorded for gradients.
func (s *Scope) GradEnabled() bool {
	s.must()
	was := setGradMode(true)
	setGradMode(was)
	return was
}
