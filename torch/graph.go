package torch

// #include "openmanus_torch.h"
import "C"

import "unsafe"

// OpRecord and OpLaunch are the operations that an Error names if a graph cannot be recorded or launched.
const (
	OpRecord = "Record"
	OpLaunch = "Launch"
)

// Graph is a recorded sequence of operations on a device, such as a CUDA graph, that Launch submits at once. It uses the addresses
// of its operands, so they must not be freed before its last launch. Values of the host are those of the recording.
type Graph struct{ p C.om_graph }

// Record records the operations of f instead of running them. f must not copy from or to the host. Tensors made in f that outlive
// it have valid elements after a Launch, until the Launch of another graph of the thread. The graph belongs to o.
//
// Libraries prepare themselves at their first operation of a kind, which cannot be recorded: call Rehearse with the same f before.
func (o *Owner) Record(s *Scope, f func()) *Graph {
	o.must()
	g := &Graph{s.onRecordingStream(true, f)}
	o.graphs = append(o.graphs, g)
	return g
}

// Rehearse runs f on the stream on which Record records.
func (s *Scope) Rehearse(f func()) { C.om_graph_free(s.onRecordingStream(false, f)) }

// onRecordingStream calls f and records its operations if record is true. It returns a graph, which is empty otherwise.
func (s *Scope) onRecordingStream(record bool, f func()) C.om_graph {
	const op = OpRecord
	kind, index := s.must().device.c()
	var g C.om_graph
	check(op, C.om_graph_begin(kind, index, cbool(record), &g))
	ended := false
	defer func() {
		if ended {
			return
		}
		_ = cerror(op, C.om_graph_end(g)) // the panic of f is the first error
		C.om_graph_free(g)
		if !record {
			return // an error of the operations themselves
		}
		switch p := recover().(type) {
		case nil: // f has ended the goroutine
		case opPanic:
			FailWith(op, p.err)
		default:
			panic(p)
		}
	}()
	f()
	ended = true
	if msg := C.om_graph_end(g); msg != nil {
		C.om_graph_free(g)
		check(op, msg)
	}
	return g
}

// Launch submits the operations.
func (g *Graph) Launch() { check(OpLaunch, C.om_graph_launch(g.p)) }

// freeGraphs frees the graphs of o.
func (o *Owner) freeGraphs() {
	for _, g := range o.graphs {
		C.om_graph_free(g.p)
		g.p = nil
	}
	o.graphs = nil
}

// Addresses returns a hash of the addresses and the sizes of tensors; none counts as a tensor too.
func Addresses(ts ...Tensor) uint64 {
	const op = "Addresses"
	ps := make([]C.om_tensor, 0, len(ts))
	none := uint64(0)
	for i, t := range ts {
		if t.None() {
			none = none*31 + uint64(i) + 1
			continue
		}
		ps = append(ps, t.in(op))
	}
	var h C.uint64_t
	check(op, C.om_addresses(unsafe.SliceData(ps), C.int64_t(len(ps)), &h))
	return uint64(h) ^ none
}
