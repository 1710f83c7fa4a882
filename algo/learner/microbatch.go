package learner

import (
	"context"
	"fmt"

	"github.com/openmanus/openmanus/data"
)

// MicroBatching bounds the rows of one pass through the model. Results do not depend
// on it, since losses are divided by the token count of the whole mini-batch (spec
// 7.3).
type MicroBatching struct {
	Rows      int // maximum number of rows in a micro-batch; 0: no limit
	MaxTokens int // maximum number of tokens in a micro-batch; 0: no limit
}

// Split cuts rows, in order, into micro-batches. It returns an error if a row has more
// than MaxTokens tokens.
func (m MicroBatching) Split(rows []data.Row) ([][]data.Row, error) {
	var out [][]data.Row
	start, tokens := 0, 0
	for i := range rows {
		n := len(rows[i].Tokens)
		if m.MaxTokens > 0 && n > m.MaxTokens {
			return nil, fmt.Errorf("row %s has %d tokens, more than max_tokens_per_micro_batch = %d", rows[i].UID, n, m.MaxTokens)
		}
		full := m.Rows > 0 && i-start == m.Rows || m.MaxTokens > 0 && tokens+n > m.MaxTokens
		if full {
			out = append(out, rows[start:i])
			start, tokens = i, 0
		}
		tokens += n
	}
	if start < len(rows) {
		out = append(out, rows[start:])
	}
	return out, nil
}

// eachMicroBatch calls f with each micro-batch of the rows, in order.
func eachMicroBatch(ctx context.Context, rows []data.Row, micro MicroBatching, f func(p *packed) error) error {
	batches, err := micro.Split(rows)
	if err != nil {
		return err
	}
	for _, b := range batches {
		p, err := pack(b)
		if err == nil {
			err = f(p)
		}
		if err != nil {
			return err
		}
		if each, _ := ctx.Value(rowCounter{}).(func(int)); each != nil {
			each(len(b))
		}
	}
	return nil
}

// LossTokens counts the tokens in the loss: the tokens with mask 1, except the first of a
// row, which has no prediction.
func LossTokens(rows []data.Row) int {
	n := 0
	for i := range rows {
		for _, m := range rows[i].Mask[min(1, len(rows[i].Mask)):] {
			n += int(m)
		}
	}
	return n
}

type rowCounter struct{}

// CountRows returns a context for passes of a model over rows. A pass calls
// each(n) after a micro-batch of n rows. If the function each is nil, it is not called.
func CountRows(ctx context.Context, each func(rows int)) context.Context {
	return context.WithValue(ctx, rowCounter{}, each)
}
