package model

import (
	"context"
	"fmt"

	"github.com/openmanus/openmanus/torch"
)

// Cache holds the keys and values of cached sequences in blocks of BlockSize
// tokens. The caller decides which sequence owns which block.
type Cache struct {
	K, V      []torch.Tensor // one per layer, [Blocks, BlockSize, Hkv, Dh]; with a scratch block more on devices with graphs
	Blocks    int
	BlockSize int

	cos, sin torch.Tensor // angles of all positions [positions, Dh/2], on a device with kernels for a paged cache; none elsewhere
	graphs   stepGraphs
	owner    *torch.Owner
}

// CacheBytesPerToken returns the bytes of one token's keys and values on this rank.
func (m *Model) CacheBytesPerToken() int {
	c := m.blocks()
	return 2 * c.NumHiddenLayers * c.NumKeyValueHeads * c.HeadDim * m.dtype.Size()
}

// NewCache reserves a cache in the model's dtype.
func (m *Model) NewCache(ctx context.Context, blocks, blockSize int) (*Cache, error) {
	if blocks < 1 || blockSize < 1 {
		return nil, fmt.Errorf("a KV cache needs at least one block of one token, not %d blocks of %d tokens", blocks, blockSize)
	}
	c := &Cache{Blocks: blocks, BlockSize: blockSize, owner: torch.NewOwner(m.thread, "kv cache")}
	all := blocks
	if !m.thread.Device().IsCPU() {
		all++ // the scratch block
	}
	err := torch.Run(ctx, m.thread, func(s *torch.Scope) error {
		for range m.Config.NumHiddenLayers {
			shape := []int{all, blockSize, m.blocks().NumKeyValueHeads, m.Config.HeadDim}
			// Each slot is written before it is read, so it needs no initial
			// value and takes no physical memory until the write.
			k, v := s.Empty(m.dtype, shape...), s.Empty(m.dtype, shape...)
			c.owner.Own(k, v)
			c.K, c.V = append(c.K, k), append(c.V, v)
		}
		if torch.PagedKernels(c.K[0]) {
			positions := make([]int32, min(m.Config.MaxPositionEmbeddings, blocks*blockSize))
			for i := range positions {
				positions[i] = int32(i)
			}
			c.cos, c.sin = m.rope.Angles(s, positions)
			c.owner.Own(c.cos, c.sin)
		}
		return nil
	})
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("reserve a KV cache of %d tokens (%d MiB): %w", blocks*blockSize, blocks*blockSize*m.CacheBytesPerToken()>>20, err)
	}
	return c, nil
}

// upload copies a batch to a device with kernels for a paged cache. It returns nil elsewhere.
func (c *Cache) upload(s *torch.Scope, b DecodeBatch) *torch.DeviceStep {
	if !c.paged() {
		return nil
	}
	c.checkPositions(b)
	return s.Upload(b, c.Blocks, c.BlockSize)
}

// paged reports whether the device has kernels for a paged cache.
func (c *Cache) paged() bool { return !c.cos.None() && torch.PagedKernels(c.K[0]) }

func (c *Cache) checkPositions(b DecodeBatch) {
	rows := c.cos.Size(0)
	for i, p := range b.Positions {
		if p < 0 || int(p) >= rows {
			torch.Fail("Decode", fmt.Sprintf("token %d is at position %d, the cache and the model have %d positions", i, p, rows))
		}
	}
}

// CopySlots copies the keys and values of the tokens in the slots `from` to the slots `to`, in every layer. A slot is block · BlockSize +
// offset. All slots are read before one is written.
func (c *Cache) CopySlots(s *torch.Scope, from, to []int64) {
	if len(from) == 0 {
		return
	}
	index := s.Int64s(from, len(from))
	read := func(t torch.Tensor) torch.Tensor {
		return t.Reshape(-1, t.Size(2), t.Size(3)).IndexSelect(0, index)
	}
	for i := range c.K {
		torch.CacheWrite(c.K[i], c.V[i], read(c.K[i]), read(c.V[i]), to)
	}
}

// Close frees the cache and its graphs.
func (c *Cache) Close() {
	c.graphs.close()
	c.owner.Close()
}
