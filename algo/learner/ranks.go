package learner

// Data parallel passes. Every rank calls a pass with the same rows in the same order. deal
// gives whole rows to the ranks; each rank computes its rows in micro-batches, with the counts
// of the whole mini-batch. The ranks then exchange the per-token fields and the statistics, as
// bits, so that after a pass all ranks hold the same results. Gradients are summed once an
// optimiser step, by optim.StepAll.
//
// A loss or a gradient that is not finite on one rank is a skipped step on all. Any other error
// of a rank aborts the group, so that the other ranks fail instead of waiting.

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch"
)

func (m MicroBatching) ranks() int {
	if m.Group == nil {
		return 1
	}
	return m.Group.Size()
}

func (m MicroBatching) rank() int {
	if m.Group == nil {
		return 0
	}
	return m.Group.Rank()
}

// abort ends the group after an error that the other ranks may not have. It returns err.
func (m MicroBatching) abort(err error) error {
	if err != nil && m.Group != nil {
		m.Group.Abort()
	}
	return err
}

// field selects a per-token field of a row.
type field = func(*data.Row) *[]float32

// exchange completes fields of the rows: every rank gets the values of the tokens in the loss
// from the rank that computed the row, bit by bit. Other tokens get 0.
func (m MicroBatching) exchange(ctx context.Context, thread *torch.Thread, rows []data.Row, fields ...field) error {
	if m.ranks() == 1 || len(fields) == 0 {
		return nil
	}
	byRank, err := m.deal(rows)
	if err != nil {
		return err
	}
	var own []byte
	eachValue(rows, byRank[m.rank()], fields, func(v *float32) {
		own = binary.LittleEndian.AppendUint32(own, math.Float32bits(*v))
	})
	var all [][]byte
	err = torch.Run(ctx, thread, func(s *torch.Scope) error {
		all, err = m.Group.GatherBytes(ctx, s, own)
		return err
	})
	if err != nil {
		return fmt.Errorf("exchange the results of the rows: %w", err)
	}
	for r, h := range byRank {
		for _, i := range h.index {
			for _, f := range fields {
				if r != m.rank() || *f(&rows[i]) == nil { // nil: a row without a token in the loss
					*f(&rows[i]) = make([]float32, len(rows[i].Tokens))
				}
			}
		}
		if r == m.rank() {
			continue
		}
		from := all[r]
		if want := 4 * len(fields) * lossTokensOf(rows, h.index); len(from) != want {
			return fmt.Errorf("exchange the results of the rows: rank %d sent %d bytes, want %d; the ranks have different rows", r, len(from), want)
		}
		eachValue(rows, h, fields, func(v *float32) {
			*v = math.Float32frombits(binary.LittleEndian.Uint32(from))
			from = from[4:]
		})
	}
	return nil
}

// eachValue calls f with the fields of every token in the loss of the rows h.
func eachValue(rows []data.Row, h rankRows, fields []field, f func(*float32)) {
	for _, i := range h.index {
		r := &rows[i]
		for _, of := range fields {
			values := *of(r)
			for t := 1; t < len(r.Tokens); t++ {
				if r.Mask[t] == 1 {
					f(&values[t])
				}
			}
		}
	}
}

func lossTokensOf(rows []data.Row, index []int) int {
	n := 0
	for _, i := range index {
		n += LossTokens(rows[i : i+1])
	}
	return n
}

// sumStats sums the statistics of a mini-batch over the ranks: it replaces each of the sums by its
// total, added in the order of the ranks. bad is the error of a loss of this rank that is not finite,
// or nil. All ranks return the error of the first rank that has one.
func (m MicroBatching) sumStats(ctx context.Context, thread *torch.Thread, sums []*float64, bad *NotFiniteError) error {
	if m.ranks() == 1 {
		if bad != nil {
			return bad
		}
		return nil
	}
	own := make([]float64, 2, 2+len(sums))
	if bad != nil {
		own[0], own[1] = 1, bad.Value
	}
	for _, v := range sums {
		own = append(own, *v)
	}
	var all []float64
	err := torch.Run(ctx, thread, func(s *torch.Scope) error {
		t := s.Empty(torch.Float64, m.ranks(), len(own))
		err := m.Group.AllGather(ctx, t, s.Float64s(own, 1, len(own)))
		if err == nil {
			all = t.ToFloat64s()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("exchange the statistics of a mini-batch: %w", err)
	}
	for i, v := range sums {
		*v = 0
		for at := 2 + i; at < len(all); at += len(own) {
			*v += all[at]
		}
	}
	for at := 0; at < len(all); at += len(own) {
		if all[at] != 0 {
			return &NotFiniteError{What: "loss", Value: all[at+1]}
		}
	}
	return nil
}
