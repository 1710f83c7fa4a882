package dist

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/openmanus/openmanus/torch"
)

// shortBytes is the length up to which data is gathered in one collective, together with its length. A longer text needs a second one.
const shortBytes = 504

// GatherBytes returns the data of all ranks, in the order of the ranks. The lengths may differ. It must be called inside
// torch.Run, whose scope holds about 2·Size times the longest data until GatherBytes returns.
func (g *Group) GatherBytes(ctx context.Context, s *torch.Scope, data []byte) ([][]byte, error) {
	var all [][]byte
	var err error
	s.Do(func(s *torch.Scope) { all, err = g.gatherBytes(ctx, s, data) })
	return all, err
}

func (g *Group) gatherBytes(ctx context.Context, s *torch.Scope, data []byte) ([][]byte, error) {
	head := make([]byte, 8+shortBytes)
	binary.LittleEndian.PutUint64(head, uint64(len(data)))
	copy(head[8:], data)
	heads := s.Empty(torch.Uint8, g.size, len(head))
	if err := g.AllGather(ctx, heads, s.Bytes(head, torch.Uint8, 1, len(head))); err != nil {
		return nil, fmt.Errorf("gather lengths: %w", err)
	}
	text := heads.ToBytes()
	all, longest := make([][]byte, g.size), 0
	for r := range all {
		h := text[r*len(head):][:len(head)]
		n := int(binary.LittleEndian.Uint64(h))
		longest = max(longest, n)
		all[r] = slices.Clone(h[8:][:min(n, shortBytes)])
	}
	if longest <= shortBytes {
		return all, nil
	}
	// Gloo gathers parts of one length.
	padded := s.Zeros(torch.Uint8, longest)
	if len(data) > 0 {
		padded.Narrow(0, 0, len(data)).Copy_(s.Bytes(data, torch.Uint8, len(data)))
	}
	parts := s.Empty(torch.Uint8, g.size, longest)
	if err := g.AllGather(ctx, parts, padded.Reshape(1, longest)); err != nil {
		return nil, fmt.Errorf("gather %d bytes: %w", longest, err)
	}
	for r := range all {
		n := int(binary.LittleEndian.Uint64(text[r*len(head):]))
		all[r] = parts.Narrow(0, r, 1).Narrow(1, 0, n).ToBytes()
	}
	return all, nil
}
