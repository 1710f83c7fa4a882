package model

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
	"github.com/openmanus/openmanus/torch/dist/disttest"
	"github.com/openmanus/openmanus/torch/shard"
)

// peak records the largest size of the live tensors of all ranks whenever a model in watch reads a weight.
type peak struct {
	mu    sync.Mutex
	bytes int64
}

func (p *peak) see() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes = max(p.bytes, torch.LiveBytes())
}

func (p *peak) watch(m *Model) {
	read := m.deferred.read
	m.deferred.read = func(s *torch.Scope, i int, w weight) (torch.Tensor, error) {
		v, err := read(s, i, w)
		p.see()
		return v, err
	}
}

// TestDeferredStart checks that a rank that shards its weights never holds more than its shards and two units, also for a copy of
// a sharded model, and that the ranks then have the weights of rank 0.
func TestDeferredStart(t *testing.T) {
	const ranks = 4
	c := wide("llama", 8, true)
	c.NumHiddenLayers = 16
	dir := saveModel(t, c, torch.Float32)
	n, err := c.NumParameters()
	if err != nil {
		t.Fatal(err)
	}
	unit := 4 * max(c.VocabSize*c.HiddenSize, (n-c.VocabSize*c.HiddenSize)/c.NumHiddenLayers)
	const slack = 20e3 // padding and messages of a rank
	for _, compute := range []torch.DType{torch.Float32, torch.BFloat16} {
		var p peak
		var before int64
		var started sync.Once
		disttest.Run(t, ranks, func(th *torch.Thread, g *dist.Group) error {
			ctx := t.Context()
			started.Do(func() { before = torch.LiveBytes() })
			if err := g.Barrier(ctx); err != nil {
				return err
			}
			b, err := Open(ctx, th, dir, Options{Deferred: true, TokenizerOptional: true})
			if err != nil {
				return err
			}
			m := b.Model
			defer m.Close()
			want, err := m.Hash(ctx)
			if err != nil {
				return err
			}
			p.watch(m)
			if g.Rank() > 0 { // reads other weights than rank 0
				read := m.deferred.read
				m.deferred.read = func(s *torch.Scope, i int, w weight) (torch.Tensor, error) {
					v, err := read(s, i, w)
					return v.MulScalar(2), err
				}
			}
			if err := m.Broadcast(ctx, g); err != nil {
				return err
			}
			o := shard.Options{Group: g, Level: shard.Weights, Compute: compute}
			if err := m.Shard(ctx, o); err != nil {
				return err
			}
			p.see()
			copied, err := m.Deferred(torch.Float32)
			if err != nil {
				return err
			}
			defer copied.Close()
			p.watch(copied)
			o.Compute = torch.Float32
			if err := copied.Shard(ctx, o); err != nil {
				return err
			}
			p.see()
			for name, m := range map[string]*Model{"model": m, "copy": copied} {
				if name == "model" && compute != torch.Float32 {
					continue // its hash is that of the rounded weights
				}
				if got, err := m.Hash(ctx); err != nil || got != want {
					t.Errorf("rank %d, %s: hash %s (%v), want %s", g.Rank(), name, got, err, want)
				}
			}
			return nil
		})
		shards := 4*n + 4*n // the model and its copy
		if compute != torch.Float32 {
			shards += 2 * n
		}
		limit := int64(shards + ranks*(2*unit+slack))
		t.Logf("%v: peak of %d ranks %d bytes, shards %d, unit %d, limit %d", compute, ranks, p.bytes-before, shards, unit, limit)
		if p.bytes-before > limit || p.bytes-before < int64(shards) {
			t.Errorf("%v: the ranks together held %d bytes, want at most %d: their shards, %d, and two units each", compute, p.bytes-before, limit, shards)
		}
	}
}

// TestReadErrorOfOneRank checks that an error of reading on one rank is returned there alone, and that the collectives of all ranks
// still match.
func TestReadErrorOfOneRank(t *testing.T) {
	dir := saveModel(t, wide("llama", 2, false), torch.Float32)
	failure := errors.New("the disk has failed")
	load := func(ctx context.Context, m *Model, _ *dist.Group) error { return m.Load(ctx) }
	divide := func(ctx context.Context, m *Model, g *dist.Group) error {
		return m.Shard(ctx, shard.Options{Group: g, Level: shard.Weights, Compute: torch.Float32})
	}
	convert := func(ctx context.Context, m *Model, _ *dist.Group) error {
		c, err := m.Shadow(ctx, torch.BFloat16)
		if err == nil {
			c.Close()
		}
		return err
	}
	for name, first := range map[string]func(context.Context, *Model, *dist.Group) error{"load": load, "shard": divide, "convert": convert} {
		for failing := range 2 {
			disttest.Run(t, 2, func(th *torch.Thread, g *dist.Group) error {
				ctx := t.Context()
				b, err := Open(ctx, th, dir, Options{Deferred: true, TokenizerOptional: true})
				if err != nil {
					return err
				}
				m := b.Model
				defer m.Close()
				read := m.deferred.read
				m.deferred.read = func(s *torch.Scope, i int, w weight) (torch.Tensor, error) {
					if i == 2 && g.Rank() == failing {
						return torch.Tensor{}, failure
					}
					return read(s, i, w)
				}
				if err := m.Broadcast(ctx, g); err != nil {
					return err
				}
				get := load
				if g.Rank() == 0 || name != "convert" {
					get = first
				}
				if err := get(ctx, m, g); errors.Is(err, failure) != (g.Rank() == failing) || err != nil && g.Rank() != failing {
					t.Errorf("%s, rank %d of which rank %d fails: the error is %v", name, g.Rank(), failing, err)
				}
				return torch.Run(ctx, th, func(s *torch.Scope) error { // the next collective is in the same order
					all, err := g.GatherBytes(ctx, s, []byte{byte(g.Rank())})
					if err == nil && (len(all) != 2 || all[1][0] != 1) {
						t.Errorf("%s: the ranks sent %v, want their numbers", name, all)
					}
					return err
				})
			})
		}
	}
}

// TestDeferred checks that a deferred model saves, hashes and copies the weights that it has after Load, and that adapters are
// merged into them as into those of a loaded model.
func TestDeferred(t *testing.T) {
	ctx, th := t.Context(), newThread(t)
	c := wide("qwen2", 2, false)
	dir, adapted := saveModel(t, c, torch.Float32), t.TempDir()
	m := openBare(t, th, dir, Options{})
	if err := m.AddLoRA(ctx, LoRA{Rank: 3, Alpha: 6, Targets: []string{AllLinear}, Base: dir}, 5); err != nil {
		t.Fatal(err)
	}
	randomAdapters(t, m)
	if err := m.SaveAdapters(ctx, adapted); err != nil {
		t.Fatal(err)
	}
	for _, dt := range []torch.DType{torch.Float32, torch.BFloat16} {
		want := openBare(t, th, adapted, Options{DType: dt})
		m := openBare(t, th, adapted, Options{DType: dt, Deferred: true})
		sameHash(t, m, want, "with adapters")
		for _, m := range []*Model{m, want} {
			if err := m.Merge(ctx); err != nil {
				t.Fatal(err)
			}
		}
		sameHash(t, m, want, "after Merge")
		saved := t.TempDir()
		if err := m.SaveWeights(ctx, saved, dt); err != nil {
			t.Fatal(err)
		}
		sameHash(t, openBare(t, th, saved, Options{DType: dt}), want, "saved")
		copied, err := m.Shadow(ctx, dt)
		if err != nil {
			t.Fatal(err)
		}
		defer copied.Close()
		sameHash(t, copied, want, "copied")
		if err := m.Load(ctx); err != nil {
			t.Fatal(err)
		}
		sameHash(t, m, want, "after Load")
	}
	if _, err := Open(ctx, th, dir, Options{Deferred: true, Ranks: new(dist.Group), TokenizerOptional: true}); err == nil {
		t.Error("a tensor-parallel model was deferred")
	}
}

// openBare opens a model that has no tokenizer.
func openBare(t *testing.T, th *torch.Thread, dir string, o Options) *Model {
	t.Helper()
	o.TokenizerOptional = true
	b, err := Open(t.Context(), th, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b.Model
}

// randomAdapters gives the matrices B of the adapters, which are zero at first, other values.
func randomAdapters(t *testing.T, m *Model) {
	t.Helper()
	run(t, m.thread, func(s *torch.Scope) {
		for i, p := range m.Adapters() {
			p.Tensor.Copy_(s.RandN(uint64(i), p.Tensor.Shape()...))
		}
	})
}

func sameHash(t *testing.T, got, want *Model, what string) {
	t.Helper()
	a, err := got.Hash(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := want.Hash(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a != b {
		t.Errorf("%s: hash %s, want %s", what, a, b)
	}
}
