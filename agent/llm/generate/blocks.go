package generate

import (
	"fmt"
	"slices"
)

// blocks allocates the blocks of the cache, the lowest free one first, so that
// equal histories give equal layouts.
type blocks struct {
	size  int     // tokens per block
	free  []int32 // free blocks; the last one is used next
	users []int   // number of sequences that use each block
}

func newBlocks(n, size int) *blocks {
	b := &blocks{size: size, free: make([]int32, n), users: make([]int, n)}
	for i := range b.free {
		b.free[i] = int32(n - 1 - i)
	}
	return b
}

// count returns the number of blocks.
func (b *blocks) count() int { return len(b.users) }

// grow appends free blocks to the slice have, the blocks of a sequence, until there is space for n tokens.
func (b *blocks) grow(have []int32, n int) ([]int32, error) {
	need := (n+b.size-1)/b.size - len(have)
	if need > len(b.free) {
		return have, fmt.Errorf("the KV cache is full: %d blocks needed, %d free", need, len(b.free))
	}
	for range max(need, 0) {
		last := len(b.free) - 1
		have = append(have, b.free[last])
		b.users[b.free[last]]++
		b.free = b.free[:last]
	}
	return have, nil
}

// share returns the blocks that the first n tokens fill, for use by a second sequence. A block that they do not fill is left out, because
// shared blocks must not be written.
func (b *blocks) share(have []int32, n int) []int32 {
	shared := slices.Clone(have[:n/b.size])
	for _, block := range shared {
		b.users[block]++
	}
	return shared
}

// release decrements the number of users of each block in the slice have. A block without users is free.
func (b *blocks) release(have []int32) {
	for _, block := range slices.Backward(have) {
		if b.users[block]--; b.users[block] == 0 {
			b.free = append(b.free, block)
		}
	}
}
