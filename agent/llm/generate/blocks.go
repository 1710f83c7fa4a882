package generate

import (
	"fmt"
	"slices"
)

// blocks hands out the cache's blocks. The lowest free one goes first, so that
// equal histories give equal layouts.
type blocks struct {
	size  int     // tokens per block
	free  []int32 // descending, so that the last is the lowest after a reset
	users []int   // how many sequences hold each
}

func newBlocks(n, size int) *blocks {
	b := &blocks{size: size, free: make([]int32, n), users: make([]int, n)}
	for i := range b.free {
		b.free[i] = int32(n - 1 - i)
	}
	return b
}

// grow extends a sequence's blocks until they hold n tokens.
func (b *blocks) grow(have []int32, n int) ([]int32, error) {
	need := (n+b.size-1)/b.size - len(have)
	if need > len(b.free) {
		return have, fmt.Errorf("the KV cache is full: %d blocks wanted, %d free", need, len(b.free))
	}
	for range max(need, 0) {
		last := len(b.free) - 1
		have = append(have, b.free[last])
		b.users[b.free[last]]++
		b.free = b.free[:last]
	}
	return have, nil
}

// share gives the blocks of n tokens to another sequence as well. They must be
// full: nobody may write to a block that two hold.
func (b *blocks) share(have []int32, n int) []int32 {
	shared := slices.Clone(have[:n/b.size])
	for _, block := range shared {
		b.users[block]++
	}
	return shared
}

// release takes a sequence's blocks back; those that nobody else holds are free.
func (b *blocks) release(have []int32) {
	for _, block := range slices.Backward(have) {
		if b.users[block]--; b.users[block] == 0 {
			b.free = append(b.free, block)
		}
	}
}
