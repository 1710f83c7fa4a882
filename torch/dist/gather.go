package dist

import (
	"context"
	"fmt"
	"slices"

	"github.com/openmanus/openmanus/torch"
)

// GatherBytes returns the data of all ranks, in the order of the ranks. The lengths may differ. It must be called inside
// torch.Run, whose scope holds about 2·Size times the longest data until GatherBytes returns.
func (g *Group) GatherBytes(ctx context.Context, s *torch.Scope, data []byte) ([][]byte, error) {
	var all [][]byte
	var err error
	s.Do(func(s *torch.Scope) { all, err = g.gatherBytes(ctx, s, data) })
	return all, err
}

func (g *Group) gatherBytes(ctx context.Context, s *torch.Scope, data []byte) ([][]byte, error) {
	counts := s.Empty(torch.Int64, g.size)
	if err := g.AllGather(ctx, counts, s.Int64s([]int64{int64(len(data))}, 1)); err != nil {
		return nil, fmt.Errorf("gather lengths: %w", err)
	}
	lengths := counts.ToInt64s()
	longest := int(slices.Max(lengths))
	all := make([][]byte, g.size)
	if longest == 0 {
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
	for r, n := range lengths {
		all[r] = parts.Narrow(0, r, 1).Narrow(1, 0, int(n)).ToBytes()
	}
	return all, nil
}
