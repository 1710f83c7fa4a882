package torch

// #include <stdlib.h>
// #include "openmanus_torch.h"
import "C"

import (
	"errors"
	"sync"
	"time"
	"unsafe"
)

// ProcessGroupOptions describes this process to NewProcessGroup.
type ProcessGroupOptions struct {
	Rank, Size int // 0 ≤ Rank < Size
	StoreHost  string
	StorePort  int           // 1 … 65535
	Serve      bool          // this process opens the store; otherwise it connects to it
	Prefix     string        // of the keys in the store; ranks with other prefixes are other groups
	Name       string        // describes this process in messages of other ranks
	Interface  string        // IP address of this machine at which the other ranks reach it
	Timeout    time.Duration // of every collective, rounded down to milliseconds
}

// ProcessGroup is the native side of a group of processes. Package dist has its use; it adds contexts, and the collectives
// are documented there. One goroutine at a time may call its methods, except Interrupt.
type ProcessGroup struct {
	mu sync.Mutex // guards g against Interrupt after Close
	g  C.om_group // nil after Close
}

// NewProcessGroup returns a group that is not yet joined. The caller closes it.
func NewProcessGroup(o ProcessGroupOptions) (*ProcessGroup, error) {
	if err := load(); err != nil {
		return nil, err
	}
	var texts [4]*C.char
	for i, s := range []string{o.StoreHost, o.Prefix, o.Name, o.Interface} {
		texts[i] = C.CString(s)
		defer C.free(unsafe.Pointer(texts[i]))
	}
	serve := C.int(0)
	if o.Serve {
		serve = 1
	}
	p := &ProcessGroup{}
	return p, groupError(C.om_group_new(C.int64_t(o.Rank), C.int64_t(o.Size), texts[0], C.int64_t(o.StorePort), serve,
		texts[1], texts[2], texts[3], C.int64_t(o.Timeout.Milliseconds()), &p.g))
}

// Join connects to all other ranks within the limit.
func (p *ProcessGroup) Join(limit time.Duration) error {
	return groupError(C.om_group_join(p.g, C.int64_t(limit.Milliseconds())))
}

// Backend returns the name of the library that computes on tensors of device d. All ranks call it at the same point.
func (p *ProcessGroup) Backend(d Device) (string, error) {
	var name *C.char
	kind, index := d.c()
	if err := groupError(C.om_group_backend(p.g, kind, index, &name)); err != nil {
		return "", err
	}
	return takeText(name), nil
}

// Broadcast replaces t on all ranks by the t of rank root.
func (p *ProcessGroup) Broadcast(t Tensor, root int) error {
	return groupError(C.om_group_broadcast(p.g, t.in("Broadcast"), C.int64_t(root)))
}

// AllReduce replaces t by its sum over the ranks.
func (p *ProcessGroup) AllReduce(t Tensor) error {
	return groupError(C.om_group_all_reduce(p.g, t.in("AllReduce")))
}

// ReduceScatter writes part Rank of the sum of src over the ranks to dst.
func (p *ProcessGroup) ReduceScatter(dst, src Tensor) error {
	return groupError(C.om_group_reduce_scatter(p.g, dst.in("ReduceScatter"), src.in("ReduceScatter")))
}

// AllGather writes the src of all ranks to dst.
func (p *ProcessGroup) AllGather(dst, src Tensor) error {
	return groupError(C.om_group_all_gather(p.g, dst.in("AllGather"), src.in("AllGather")))
}

// Barrier returns when all ranks have called it.
func (p *ProcessGroup) Barrier() error { return groupError(C.om_group_barrier(p.g)) }

// Leave returns when all ranks have called it.
func (p *ProcessGroup) Leave() error { return groupError(C.om_group_leave(p.g)) }

// Interrupt makes the call in progress and all later calls fail. It may be called at any time.
func (p *ProcessGroup) Interrupt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.g != nil {
		C.om_group_interrupt(p.g)
	}
}

// Close closes the connections. No other method may be running or be called later, except Interrupt and Close.
func (p *ProcessGroup) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.g != nil {
		C.om_group_free(p.g)
		p.g = nil
	}
}

func groupError(msg *C.char) error {
	if msg == nil {
		return nil
	}
	return errors.New(takeText(msg))
}
