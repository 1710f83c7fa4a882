package generate

// The memory of the KV cache on a device that other work uses in turn.
//
// libtorch's allocator for GPUs keeps the blocks of freed tensors and splits them for smaller tensors. A block of which one part is in
// use cannot serve a large tensor. Two calls of EmptyCache therefore keep the cache and the other work apart: after Release the other
// work gets blocks of its own sizes, and at Reserve its free blocks make room for the cache.

import (
	"context"
	"fmt"

	"github.com/openmanus/openmanus/torch"
)

// Release implements engine.Backend. It also forgets the sequences: a rank that follows another one learns only later which of them
// rank 0 has dropped.
func (b *Backend) Release(ctx context.Context) error {
	if b.cache == nil {
		return nil
	}
	b.cache.Close()
	clear(b.seqs)
	b.cache, b.blocks = nil, newBlocks(b.blocks.count(), b.blocks.size)
	if err := b.emptyCache(ctx); err != nil {
		return fmt.Errorf("release the KV cache: %w", err)
	}
	return nil
}

// Reserve implements engine.Backend.
func (b *Backend) Reserve(ctx context.Context) error {
	if b.cache != nil {
		return nil
	}
	if err := b.emptyCache(ctx); err != nil {
		return fmt.Errorf("reserve the KV cache: %w", err)
	}
	return b.reserve(ctx)
}

func (b *Backend) reserve(ctx context.Context) error {
	cache, err := b.model.NewCache(ctx, b.blocks.count(), b.blocks.size)
	if err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	b.cache = cache
	return nil
}

func (b *Backend) emptyCache(ctx context.Context) error {
	t := b.model.Thread()
	return torch.Run(ctx, t, func(*torch.Scope) error { return t.Device().EmptyCache() })
}

// Close frees the cache and the int8 copies of the weights.
func (b *Backend) Close() {
	if b.int8 {
		b.model.DropInt8()
	}
	if b.cache != nil {
		b.cache.Close()
	}
}
