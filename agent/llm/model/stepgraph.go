package model

import (
	"slices"

	"github.com/openmanus/openmanus/torch"
)

// Graphs of decoding steps. Submitting the operations of a step one by one takes a host longer than a GPU needs to compute them, so
// a step of a kind is recorded at its second occurrence, and the recording is launched from then on. Steps are of one kind if
// they have the same number of rows, after padding to a bucket, and similarly long contexts. The rows of the padding write to the
// cache's scratch block. All that varies between steps of one kind is in memory at fixed addresses, which one transfer fills.

const (
	maxGraphRows = 512 // larger batches keep a GPU busy without graphs
	maxGraphs    = 64  // per cache; the one that was not used for the longest time is dropped
	contextUnit  = 512 // smallest bucket of context lengths: the keys of one block of the attention kernel
)

// stepKind is what steps have in common that one graph computes.
type stepKind struct {
	rows, longest int  // sizes after padding
	cut           bool // a row has top-k or top-p
}

// graphRows returns the number of rows of a step with n sequences after padding: 1, 2, 4, the multiples of 8 to 256, and those of
// 16 above, as in vLLM.
func graphRows(n int) int {
	switch {
	case n <= 2:
		return n
	case n <= 4:
		return 4
	case n <= 256:
		return (n + 7) / 8 * 8
	}
	return (n + 15) / 16 * 16
}

// graphContext returns the length of contexts for which a step with contexts of at most n tokens is recorded. It doubles from bucket
// to bucket: parts of the attention kernel beyond the end of a context end at once, and cost little.
func graphContext(n int) int {
	longest := contextUnit
	for longest < n {
		longest *= 2
	}
	return longest
}

// stepGraph computes the steps of one kind.
type stepGraph struct {
	owner  *torch.Owner
	step   *torch.DeviceStep
	graph  *torch.Graph // nil before the second step
	logits torch.Tensor // of the graph, like drawn
	drawn  *torch.Drawn
	used   int64 // number of the last step
}

// stepGraphs holds the recorded steps of a cache.
type stepGraphs struct {
	list      map[stepKind]*stepGraph
	model     *Model
	addresses uint64 // of everything that the graphs use and do not own
	steps     int64
	tensors   []torch.Tensor // of addresses; kept for the next step
}

// SampleByGraph is Sample by launching recorded graphs where that is possible: on a GPU, if every sequence of b has one new token and
// a draw. Other steps, and those of models that are divided among ranks, run as Sample. The logits are valid until the next call.
func (m *Model) SampleByGraph(s *torch.Scope, c *Cache, b DecodeBatch) (logits torch.Tensor, ids []int32, logps []float32, kept [][]int32) {
	if !m.hasGraph(c, &b) {
		return m.Sample(s, c, b)
	}
	s.NoGrad(func() {
		n := len(b.IDs)
		c.checkPositions(b)
		kind := stepKind{rows: graphRows(n), longest: graphContext(slices.Max(b.Seqs.Lens)), cut: slices.ContainsFunc(b.Draws, torch.SampleRow.Restricted)}
		b = c.pad(b, kind.rows)
		g, fresh := c.graph(m, s, kind)
		g.step.Refill(b, c.Blocks+1, c.BlockSize)
		compute := func() (logits torch.Tensor, drawn *torch.Drawn) {
			logits = m.Logits(m.decode(s, c, b, g.step))
			return logits, g.step.Draw(logits)
		}
		var drawn *torch.Drawn
		switch {
		case fresh:
			s.Rehearse(func() { logits, drawn = compute() })
		case g.graph == nil:
			g.graph = g.owner.Record(s, func() { g.logits, g.drawn = compute() })
			g.drawn.Own(g.owner)
			fallthrough
		default:
			g.graph.Launch()
			logits, drawn = g.logits, g.drawn
		}
		ids, logps, kept = drawn.Get()
		ids, logps = ids[:n], logps[:n]
		kept = kept[:min(n, len(kept))]
	})
	return logits, ids, logps, kept
}

// hasGraph reports whether a step can be a graph.
func (m *Model) hasGraph(c *Cache, b *DecodeBatch) bool {
	n := len(b.Seqs.Lens)
	return n > 0 && n <= maxGraphRows && len(b.IDs) == n && len(b.Draws) == n && m.tp == nil && !m.Lockstep() && c.paged()
}

// pad adds rows that write to the scratch block, and draw from what they have written.
func (c *Cache) pad(b DecodeBatch, rows int) DecodeBatch {
	scratch := []int32{int32(c.Blocks)}
	// The slices of b belong to the caller.
	for _, list := range []*[]int32{&b.IDs, &b.Positions} {
		*list = append(slices.Clip(*list), make([]int32, rows-len(*list))...)
	}
	b.Slots, b.Outputs, b.Draws = slices.Clip(b.Slots), slices.Clip(b.Outputs), slices.Clip(b.Draws)
	b.Seqs.Lens, b.Seqs.QOffsets, b.Seqs.Blocks = slices.Clip(b.Seqs.Lens), slices.Clip(b.Seqs.QOffsets), slices.Clip(b.Seqs.Blocks)
	for i := len(b.Seqs.Lens); i < rows; i++ {
		b.Slots = append(b.Slots, int64(c.Blocks*c.BlockSize))
		b.Outputs = append(b.Outputs, int64(i))
		b.Draws = append(b.Draws, torch.SampleRow{Temperature: 1, TopP: 1, Greedy: true})
		b.Seqs.Lens = append(b.Seqs.Lens, 1)
		b.Seqs.QOffsets = append(b.Seqs.QOffsets, i+1)
		b.Seqs.Blocks = append(b.Seqs.Blocks, scratch)
	}
	return b
}

// graph returns the graph for steps of a kind, and whether it is new. It drops all graphs if something that they use has another
// address than when they were recorded.
func (c *Cache) graph(m *Model, s *torch.Scope, kind stepKind) (g *stepGraph, fresh bool) {
	l := &c.graphs
	if a := l.addressesOf(m, c); l.model != m || l.addresses != a {
		l.close()
		l.model, l.addresses, l.list = m, a, map[stepKind]*stepGraph{}
	}
	l.steps++
	g = l.list[kind]
	if g == nil {
		if len(l.list) >= maxGraphs {
			l.dropOldest()
		}
		owner := torch.NewOwner(m.thread, "decoding graph")
		g, fresh = &stepGraph{owner: owner, step: owner.FixedStep(s, kind.rows, kind.longest, c.BlockSize)}, true
		l.list[kind] = g
	}
	g.used = l.steps
	return g, fresh
}

// addressesOf returns a hash of the addresses of the weights, the adapters and the cache.
func (l *stepGraphs) addressesOf(m *Model, c *Cache) uint64 {
	l.tensors = append(l.tensors[:0], c.cos, c.sin)
	l.tensors = append(append(l.tensors, c.K...), c.V...)
	for _, w := range m.declared.weights {
		l.tensors = append(l.tensors, *w.field)
	}
	if m.lora != nil {
		for _, a := range m.lora.list {
			l.tensors = append(l.tensors, a.l.LoRA.A, a.l.LoRA.B)
		}
	}
	return torch.Addresses(l.tensors...)
}

func (l *stepGraphs) dropOldest() {
	var oldest stepKind
	used := l.steps + 1
	for kind, g := range l.list {
		if g.used < used {
			oldest, used = kind, g.used
		}
	}
	l.list[oldest].owner.Close()
	delete(l.list, oldest)
}

// close frees the graphs.
func (l *stepGraphs) close() {
	for _, g := range l.list {
		g.owner.Close()
	}
	l.list = nil
}
