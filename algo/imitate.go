package algo

import (
	"context"

	"github.com/openmanus/openmanus/data"
)

// ImitationStats are means over the tokens or the optimiser steps of Imitate.
type ImitationStats struct {
	Loss     float64 // negative log-prob of a token, before the optimiser step it entered
	GradNorm float64
	Steps    int // optimiser steps done
	Skipped  int // left out, since they were not finite
}

// Imitate trains on the sampled tokens of rows as supervised training does (the
// loss is that of sft.go), in the passes and mini-batches of o.
func (a *Actor) Imitate(ctx context.Context, rows []data.Row, lr float64, o PolicyOptions) (st ImitationStats, err error) {
	defer func() { a.torn = a.torn || err != nil && st.Steps > 0 }()
	p, err := newPasses(rows, o.MiniBatch, o.Passes, o.Seed)
	if err != nil {
		return st, err
	}
	tokens := 0
	for n := range p.epochs() {
		minis, done := p.next(n)
		for _, mini := range minis {
			if maskedTokens(mini) == 0 {
				continue
			}
			one, err := a.UpdateSFT(ctx, mini, lr, o.GradClip, o.Micro)
			if err != nil {
				return st, err
			}
			if one.Skipped {
				st.Skipped++
				continue
			}
			st.Loss += one.Loss * float64(one.Tokens)
			st.GradNorm += one.GradNorm
			st.Steps++
			tokens += one.Tokens
		}
		done()
	}
	if st.Steps > 0 {
		st.Loss /= float64(tokens)
		st.GradNorm /= float64(st.Steps)
	}
	return st, nil
}
