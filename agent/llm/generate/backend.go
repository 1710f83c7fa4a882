package generate

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/torch"
)

// Options size the KV cache. One of KVTokens and KVBytes is given.
type Options struct {
	KVTokens  int   // tokens over all sequences
	KVBytes   int64 // or the memory they may take
	BlockSize int   // tokens per block; 0 is DefaultBlockSize
	Version   int64 // of the weights at the start
	// Teacher, if set, decides what is drawn; the sampler only says what it
	// would have drawn.
	Teacher engine.Teacher
}

// DefaultBlockSize wastes half a block per sequence on average and keeps the
// tables of blocks short.
const DefaultBlockSize = 32

// Backend samples from a model; it implements engine.Backend.
type Backend struct {
	model   *model.Model
	cache   *model.Cache
	blocks  *blocks
	seqs    map[engine.SeqID]*sequence
	version atomic.Int64
	teacher engine.Teacher // nil: the sampler decides
}

var _ engine.Backend = (*Backend)(nil)

// sequence is the cached part of a context.
type sequence struct {
	length int
	blocks []int32
}

// New reserves the KV cache. The model stays the caller's.
func New(ctx context.Context, m *model.Model, o Options) (*Backend, error) {
	if o.BlockSize == 0 {
		o.BlockSize = DefaultBlockSize
	}
	n, err := o.blocks(m)
	if err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	cache, err := m.NewCache(ctx, n, o.BlockSize)
	if err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	b := &Backend{model: m, cache: cache, blocks: newBlocks(n, o.BlockSize), seqs: map[engine.SeqID]*sequence{}, teacher: o.Teacher}
	b.version.Store(o.Version)
	return b, nil
}

// blocks returns how many blocks the budget pays for.
func (o Options) blocks(m *model.Model) (int, error) {
	switch {
	case o.BlockSize < 0:
		return 0, fmt.Errorf("block size %d is negative", o.BlockSize)
	case o.KVTokens > 0 && o.KVBytes > 0:
		return 0, errors.New("KVTokens and KVBytes are both given")
	case o.KVTokens > 0:
		return (o.KVTokens + o.BlockSize - 1) / o.BlockSize, nil
	}
	n := int(o.KVBytes / int64(m.CacheBytesPerToken()) / int64(o.BlockSize))
	if n < 1 {
		return 0, fmt.Errorf("a KV budget of %d bytes holds no block of %d tokens, which takes %d bytes", o.KVBytes, o.BlockSize, m.CacheBytesPerToken()*o.BlockSize)
	}
	return n, nil
}

// Capacity implements engine.Backend.
func (b *Backend) Capacity() int { return b.cache.Blocks * b.cache.BlockSize }

// BlockSize implements engine.Backend.
func (b *Backend) BlockSize() int { return b.cache.BlockSize }

// Version implements engine.Backend.
func (b *Backend) Version() int64 { return b.version.Load() }

// SetVersion declares that the weights have changed. The scheduler rebuilds
// what it cached under another version.
func (b *Backend) SetVersion(v int64) { b.version.Store(v) }

// Drop implements engine.Backend.
func (b *Backend) Drop(id engine.SeqID) {
	if s := b.seqs[id]; s != nil {
		b.blocks.release(s.blocks)
		delete(b.seqs, id)
	}
}

// Live returns the number of sequences and of blocks in use.
func (b *Backend) Live() (sequences, blocks int) {
	return len(b.seqs), b.cache.Blocks - len(b.blocks.free)
}

// Close frees the cache.
func (b *Backend) Close() { b.cache.Close() }

// Step implements engine.Backend. A call that has begun is not interrupted:
// ctx counts only while it waits for the model's thread.
func (b *Backend) Step(ctx context.Context, batch []engine.Work) ([]engine.Sampled, error) {
	if len(batch) == 0 {
		return nil, nil
	}
	p, err := b.pack(batch)
	if err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	out := make([]engine.Sampled, len(batch))
	err = torch.Run(ctx, b.model.Thread(), func(s *torch.Scope) error {
		s.NoGrad(func() {
			hidden := b.model.Decode(s, b.cache, p.decode)
			if len(p.rows) == 0 {
				return
			}
			logits := b.model.Logits(hidden)
			ids, logps, kept := torch.Sample(logits, p.rows)
			for i, w := range p.owner {
				out[w] = engine.Sampled{Token: ids[i], LogProb: logps[i], Kept: kept[i]}
				if b.teacher != nil {
					b.teach(logits.Narrow(0, i, 1), p.rows[i], batch[w].Draw, &out[w])
				}
			}
		})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	for i := range batch {
		b.seqs[batch[i].Seq].length += len(batch[i].Tokens)
	}
	return out, nil
}

// packed is a batch in the form the model takes it.
type packed struct {
	decode model.DecodeBatch
	rows   []torch.SampleRow // one per entry of decode.Outputs
	owner  []int             // the batch entry each row belongs to
}

// pack checks a batch, gives its sequences the blocks they need and lays the
// tokens one sequence after another.
func (b *Backend) pack(batch []engine.Work) (*packed, error) {
	p := &packed{}
	d := &p.decode
	d.Seqs.QOffsets = []int{0}
	size := b.cache.BlockSize
	seen := make(map[engine.SeqID]bool, len(batch))
	for i := range batch {
		w := &batch[i]
		seq, err := b.sequence(w)
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
			d.Slots = append(d.Slots, int64(seq.blocks[pos/size])*int64(size)+int64(pos%size))
		}
		d.Seqs.QOffsets = append(d.Seqs.QOffsets, len(d.IDs))
		d.Seqs.Lens = append(d.Seqs.Lens, end)
		d.Seqs.Blocks = append(d.Seqs.Blocks, seq.blocks)
		if w.Sample {
			d.Outputs = append(d.Outputs, len(d.IDs)-1)
			p.rows = append(p.rows, row(w))
			p.owner = append(p.owner, i)
		}
	}
	return p, nil
}

// sequence finds or begins the sequence of a Work.
func (b *Backend) sequence(w *engine.Work) (*sequence, error) {
	seq := b.seqs[w.Seq]
	source := seq // of what is cached
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
		return nil, fmt.Errorf("sequence %d is to begin like sequence %d, but has begun", w.Seq, w.From)
	case w.Pos > length, w.Pos < length && w.Pos%b.cache.BlockSize != 0:
		return nil, fmt.Errorf("sequence %d: tokens for position %d, but %d are cached", w.Seq, w.Pos, length)
	case w.Pos+len(w.Tokens) > c.MaxPositionEmbeddings:
		return nil, fmt.Errorf("sequence %d: %d tokens are more than the model's %d positions (max_position_embeddings)", w.Seq, w.Pos+len(w.Tokens), c.MaxPositionEmbeddings)
	}
	if err := c.CheckIDs(w.Tokens); err != nil {
		return nil, fmt.Errorf("sequence %d: %w", w.Seq, err)
	}
	switch {
	case seq == nil:
		seq = &sequence{length: w.Pos}
		if source != nil {
			seq.blocks = b.blocks.share(source.blocks, w.Pos)
		}
		b.seqs[w.Seq] = seq
	case w.Pos < length:
		keep := w.Pos / b.cache.BlockSize
		b.blocks.release(seq.blocks[keep:])
		seq.length, seq.blocks = w.Pos, seq.blocks[:keep]
	}
	return seq, nil
}

func row(w *engine.Work) torch.SampleRow {
	return torch.SampleRow{
		Key: drawKey(w.Draw), Position: uint64(w.Draw.Position),
		Temperature: w.Temperature, TopP: w.TopP, TopK: w.TopK, Greedy: w.Greedy,
	}
}
