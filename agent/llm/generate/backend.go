package generate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/torch"
)

// Options of a Backend.
type Options struct {
	KVTokens  int            // size of the KV cache in tokens, over all sequences
	BlockSize int            // tokens per block; 0 means DefaultBlockSize
	Teacher   engine.Teacher // replaces sampled tokens; may be nil

	// EnforceEager submits the operations of every decoding step one by one. Otherwise a GPU launches recorded steps as CUDA graphs.
	EnforceEager bool

	// Int8 samples with int8 copies of the weights (model.QuantizeInt8), which the first step of every version makes. The model is whole
	// and on the CPU.
	Int8 bool
}

// DefaultBlockSize is the default number of tokens per block. A sequence leaves
// half a block unused on average; larger blocks keep the block tables short.
const DefaultBlockSize = 32

// Backend samples from a model; it implements engine.Backend.
type Backend struct {
	model   *model.Model
	cache   *model.Cache // nil between Release and Reserve
	blocks  *blocks
	seqs    map[engine.SeqID]*sequence
	version atomic.Int64
	teacher engine.Teacher // may be nil
	eager   bool           // Options.EnforceEager
	int8    bool           // Options.Int8
	copied  int64          // version of the weights that the int8 copies have
	link    *link          // to the other ranks of a tensor-parallel model; nil if the model is whole
}

var _ engine.Backend = (*Backend)(nil)

// sequence holds the cached tokens of an engine sequence: their number and their blocks.
type sequence struct {
	length int
	blocks []int32
}

// New returns a Backend with a KV cache for m. The caller closes m after the
// Backend.
func New(ctx context.Context, m *model.Model, o Options) (*Backend, error) {
	o.BlockSize = cmp.Or(o.BlockSize, DefaultBlockSize)
	if o.KVTokens < 1 || o.BlockSize < 1 {
		return nil, fmt.Errorf("generate: a KV cache of %d tokens in blocks of %d: both must be positive", o.KVTokens, o.BlockSize)
	}
	if o.Int8 && (m.Ranks() != nil || !m.Thread().Device().IsCPU()) {
		return nil, fmt.Errorf("generate: int8 weights need a whole model on the CPU; the model is on %s, tensor parallel: %t", m.Thread().Device(), m.Ranks() != nil)
	}
	n := (o.KVTokens + o.BlockSize - 1) / o.BlockSize
	b := &Backend{model: m, blocks: newBlocks(n, o.BlockSize), seqs: map[engine.SeqID]*sequence{}, teacher: o.Teacher, eager: o.EnforceEager, link: newLink(m),
		int8: o.Int8, copied: math.MinInt64}
	if err := b.reserve(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

// Capacity implements engine.Backend.
func (b *Backend) Capacity() int { return b.blocks.count() * b.blocks.size }

// BlockSize implements engine.Backend.
func (b *Backend) BlockSize() int { return b.blocks.size }

// Version implements engine.Backend.
func (b *Backend) Version() int64 { return b.version.Load() }

// SetVersion sets the version of the weights after an update. The scheduler
// recomputes KV of other versions.
func (b *Backend) SetVersion(v int64) { b.version.Store(v) }

// Drop implements engine.Backend.
func (b *Backend) Drop(id engine.SeqID) {
	b.link.drop(id)
	if s := b.seqs[id]; s != nil {
		b.blocks.release(s.blocks)
		delete(b.seqs, id)
	}
}

// Step implements engine.Backend. A cancelled ctx ends Step only while it waits
// for the model's thread, and does not interrupt a running call.
func (b *Backend) Step(ctx context.Context, batch []engine.Work) ([]engine.Sampled, error) {
	if len(batch) == 0 {
		return nil, nil
	}
	p, err := b.pack(batch)
	if err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	if err := b.Reserve(ctx); err != nil {
		return nil, err
	}
	ctx, done, err := b.link.begin(ctx, batch)
	if err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	defer done()
	out := make([]engine.Sampled, len(batch))
	sample := b.model.SampleByGraph
	if b.eager {
		sample = b.model.Sample
	}
	err = torch.Run(ctx, b.model.Thread(), func(s *torch.Scope) error {
		if v := b.Version(); b.int8 && v != b.copied {
			b.model.QuantizeInt8(s)
			b.copied = v
		}
		s.NoGrad(func() {
			b.cache.CopySlots(s, p.from, p.to)
			logits, ids, logps, kept := sample(s, b.cache, p.decode)
			for i, w := range p.owner {
				out[w] = engine.Sampled{Token: ids[i], LogProb: logps[i], Kept: kept[i]}
				if b.teacher != nil {
					b.teach(logits.Narrow(0, i, 1), p.decode.Draws[i], batch[w].Draw, &out[w])
				}
				if n := batch[w].Top; n > 0 {
					out[w].Top = mostProbable(logits.Narrow(0, i, 1).To(torch.Float32).ToFloat32s(), p.decode.Draws[i], n)
				}
			}
		})
		return nil
	})
	if err != nil {
		b.link.abort()
		if e, ok := errors.AsType[*torch.Error](err); ok && (e.Op == torch.OpRecord || e.Op == torch.OpLaunch) && !e.OutOfMemory() {
			return nil, fmt.Errorf("generate: decode by a graph (rollout.enforce_eager = true decodes without graphs): %w", err)
		}
		return nil, fmt.Errorf("generate: %w", err)
	}
	for i := range batch {
		b.seqs[batch[i].Seq].length += len(batch[i].Tokens)
	}
	return out, nil
}

// packed is a batch in the form that the model expects.
type packed struct {
	decode model.DecodeBatch
	owner  []int // owner[i] is the batch index of the Work of decode.Draws[i]

	from, to []int64         // slots of tokens that are copied before the step
	origin   map[int64]int64 // the slot in `from` of each slot in `to`
}

// pack validates a batch, assigns blocks to its sequences and concatenates their
// tokens.
func (b *Backend) pack(batch []engine.Work) (*packed, error) {
	p := &packed{}
	d := &p.decode
	d.Seqs.QOffsets = []int{0}
	size := b.blocks.size
	seen := make(map[engine.SeqID]bool, len(batch))
	for i := range batch {
		w := &batch[i]
		seq, err := b.sequence(w, p)
		if err != nil {
			return nil, err
		}
		if seen[w.Seq] {
			return nil, fmt.Errorf("sequence %d is twice in a batch", w.Seq)
		}
		seen[w.Seq] = true
		end := w.Pos + len(w.Tokens)
		if seq.blocks, err = b.blocks.grow(seq.blocks, end); err != nil {
			return nil, err
		}
		for j, id := range w.Tokens {
			pos := w.Pos + j
			d.IDs = append(d.IDs, id)
			d.Positions = append(d.Positions, int32(pos))
			d.Slots = append(d.Slots, slot(seq.blocks, size, pos))
		}
		d.Seqs.QOffsets = append(d.Seqs.QOffsets, len(d.IDs))
		d.Seqs.Lens = append(d.Seqs.Lens, end)
		d.Seqs.Blocks = append(d.Seqs.Blocks, seq.blocks)
		if w.Sample {
			d.Outputs = append(d.Outputs, int64(len(d.IDs)-1))
			d.Draws = append(d.Draws, torch.SampleRow{
				Key: drawKey(w.Draw), Position: uint64(w.Draw.Position),
				Temperature: w.Temperature, TopP: w.TopP, TopK: w.TopK, Greedy: w.Greedy,
			})
			p.owner = append(p.owner, i)
		}
	}
	return p, nil
}

// sequence returns the sequence of w, truncated to w.Pos tokens. It creates a missing sequence. Tokens to copy before the step are
// appended to p.from and p.to.
func (b *Backend) sequence(w *engine.Work, p *packed) (*sequence, error) {
	seq := b.seqs[w.Seq]
	source := seq // the sequence whose cached tokens w continues
	if w.From != 0 {
		source = b.seqs[w.From]
	}
	length := 0
	if source != nil {
		length = source.length
	}
	c := &b.model.Config
	switch {
	case len(w.Tokens) == 0:
		return nil, fmt.Errorf("sequence %d: a step without tokens", w.Seq)
	case w.From != 0 && seq != nil:
		return nil, fmt.Errorf("sequence %d is not new, so it cannot copy a prefix of sequence %d", w.Seq, w.From)
	case w.Pos > length:
		return nil, fmt.Errorf("sequence %d: tokens for position %d, but %d are cached", w.Seq, w.Pos, length)
	case w.Pos+len(w.Tokens) > c.MaxPositionEmbeddings:
		return nil, fmt.Errorf("sequence %d: %d tokens are more than the model's %d positions (max_position_embeddings)", w.Seq, w.Pos+len(w.Tokens), c.MaxPositionEmbeddings)
	}
	if err := c.CheckIDs(w.Tokens); err != nil {
		return nil, fmt.Errorf("sequence %d: %w", w.Seq, err)
	}
	if seq != nil && w.Pos == length {
		return seq, nil
	}
	begun := &sequence{length: w.Pos}
	if source != nil {
		begun.blocks = b.blocks.share(source.blocks, w.Pos)
	}
	if seq != nil { // the blocks that it keeps have two users now
		b.blocks.release(seq.blocks)
	}
	b.seqs[w.Seq] = begun
	return begun, p.copyRest(b, source, begun)
}

// copyRest gives the sequence `to` a block of its own for the tokens of `from` that do not fill a block, and plans their copies.
func (p *packed) copyRest(b *Backend, from, to *sequence) (err error) {
	size := b.blocks.size
	if to.blocks, err = b.blocks.grow(to.blocks, to.length); err != nil {
		return err
	}
	for i := to.length - to.length%size; i < to.length; i++ {
		src, dst := slot(from.blocks, size, i), slot(to.blocks, size, i)
		if origin, ok := p.origin[src]; ok { // `from` was truncated in this batch, and its copy is not made yet
			src = origin
		}
		if p.origin == nil {
			p.origin = map[int64]int64{}
		}
		p.origin[dst] = src
		p.from, p.to = append(p.from, src), append(p.to, dst)
	}
	return nil
}

// slot returns the place of a sequence's i-th token in the cache.
func slot(blocks []int32, size, i int) int64 {
	return int64(blocks[i/size])*int64(size) + int64(i%size)
}

// drawKey returns the key of a draw's counter-based generator: a hash of all
// fields except the position. The sampling kernel adds the position and the
// token id. Each field passes through a full mixing step, so that the noise of
// similar samples, turns and seeds is independent.
func drawKey(d engine.Draw) uint64 {
	k := engine.Mix(d.Seed)
	k = engine.Mix(k ^ d.Task)
	k = engine.Mix(k ^ uint64(int64(d.Sample)))
	return engine.Mix(k ^ uint64(int64(d.Turn)))
}
