package model

import (
	"context"
	"fmt"

	"github.com/openmanus/openmanus/torch"
)

// LogProbs returns, for every sequence, log p(ids[i+1] | ids[..i]) under
// softmax(logits / temperature), from one packed forward pass. A sequence of n
// tokens gives n-1 values.
func (m *Model) LogProbs(ctx context.Context, temperature float64, seqs ...[]int32) ([][]float32, error) {
	for i, seq := range seqs {
		if err := m.Config.CheckIDs(seq); err != nil {
			return nil, fmt.Errorf("sequence %d: %w", i, err)
		}
	}
	ids, positions, offsets := Pack(seqs...)
	out := make([][]float32, len(seqs))
	if len(ids) == 0 {
		return out, nil
	}
	err := torch.Run(ctx, m.thread, func(s *torch.Scope) error {
		defer m.DropTapes()
		s.NoGrad(func() {
			hidden := m.Forward(s, ids, positions, offsets)
			logp, _ := m.TokenLogProbs(hidden, NextTokens(ids, offsets), nil, temperature, false)
			all := logp.ToFloat32s()
			for i := range seqs {
				out[i] = all[offsets[i]:max(offsets[i+1]-1, offsets[i])]
			}
		})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("log-probs: %w", err)
	}
	return out, nil
}

// NextTokens returns for every packed token the next token of its sequence, and
// -1 for the last token of each sequence.
func NextTokens(ids []int32, offsets []int) []int64 {
	next := make([]int64, len(ids))
	for i := range ids {
		if i+1 < len(ids) {
			next[i] = int64(ids[i+1])
		}
	}
	for _, end := range offsets[1:] {
		if end > 0 {
			next[end-1] = -1
		}
	}
	return next
}

// DecodeLogProbs computes LogProbs of one sequence through the KV cache, chunk
// tokens at a time. Generation decodes with a chunk of 1.
func (m *Model) DecodeLogProbs(ctx context.Context, temperature float64, ids []int32, chunk int) ([]float32, error) {
	if err := m.Config.CheckIDs(ids); err != nil {
		return nil, err
	}
	if len(ids) < 2 {
		return nil, nil
	}
	if chunk < 1 {
		return nil, fmt.Errorf("log-probs: the chunk is %d tokens, want at least 1", chunk)
	}
	const blockSize = 16
	blocks := (len(ids) + blockSize - 1) / blockSize
	cache, err := m.NewCache(ctx, blocks, blockSize)
	if err != nil {
		return nil, fmt.Errorf("log-probs: %w", err)
	}
	defer cache.Close()
	table := make([]int32, blocks)
	for i := range table {
		table[i] = int32(i)
	}
	var out []float32
	for at := 0; at < len(ids)-1; at += chunk {
		end := min(at+chunk, len(ids)-1)
		b := DecodeBatch{Seqs: torch.CachedSeqs{QOffsets: []int{0, end - at}, Lens: []int{end}, Blocks: [][]int32{table}}}
		var targets []int64
		for i := at; i < end; i++ {
			b.IDs = append(b.IDs, ids[i])
			b.Positions = append(b.Positions, int32(i))
			b.Slots = append(b.Slots, int64(i))
			b.Outputs = append(b.Outputs, int64(i-at))
			targets = append(targets, int64(ids[i+1]))
		}
		err := torch.Run(ctx, m.thread, func(s *torch.Scope) error {
			defer m.DropTapes()
			hidden := m.Decode(s, cache, b)
			s.NoGrad(func() {
				logp, _ := m.TokenLogProbs(hidden, targets, nil, temperature, false)
				out = append(out, logp.ToFloat32s()...)
			})
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("log-probs: %w", err)
		}
	}
	return out, nil
}
