package learner

// Several passes over one batch (verl's ppo_epochs and shuffle): every pass cuts
// the episodes into mini-batches and makes one optimiser step of each. Old
// log-probs, values, advantages and returns are those from before the first.
//
// Differs from verl in: what a pass shuffles are episodes, not rows, and the
// order depends on the run's seed, the step and the pass alone, so that a
// resumed run takes the same. A pass of one mini-batch is not shuffled: its
// gradient is a sum, whatever the order. Where episodes were left out, the
// mini-batches are as even as can be: the episodes of a small one would weigh
// more than the others.

import (
	"slices"

	"github.com/openmanus/openmanus/data"
)

// Passes say how often an update goes over its rows, and in which order.
type Passes struct {
	Epochs  int  // passes; 0 is one
	Shuffle bool // draw the episodes of every mini-batch anew in every pass
}

// Count returns the number of passes.
func (p Passes) Count() int { return max(1, p.Epochs) }

// OptimizerSteps returns the number of optimiser steps of an update of rows in
// mini-batches of size episodes; size 0 is all.
func (p Passes) OptimizerSteps(rows []data.Row, size int) (int, error) {
	over, err := newPasses(rows, size, Passes{Epochs: p.Epochs}, 0)
	if err != nil {
		return 0, err
	}
	return over.steps(), nil
}

// passes are those over the rows of one update.
type passes struct {
	Passes
	rows  []data.Row
	spans [][2]int // of the episodes
	size  int      // episodes in a mini-batch, at most
	order *data.Order
}

// newPasses prepares passes over rows in mini-batches of so many episodes; 0 is
// all.
func newPasses(rows []data.Row, size int, o Passes, seed uint64) (*passes, error) {
	spans, err := data.EpisodeSpans(rows)
	if err != nil {
		return nil, err
	}
	if size <= 0 || size > len(spans) {
		size = max(1, len(spans))
	}
	p := &passes{Passes: o, rows: rows, spans: spans, size: size}
	if o.Shuffle && p.miniBatches() > 1 {
		p.order, err = data.NewOrder(len(spans), true, seed)
	}
	return p, err
}

// miniBatches is how many a pass has.
func (p *passes) miniBatches() int { return (len(p.spans) + p.size - 1) / p.size }

// steps is how many optimiser steps all passes have, at most.
func (p *passes) steps() int { return p.Count() * p.miniBatches() }

// next are the mini-batches of the n-th pass, from 0; they come in order. What
// is written to the rows of the first pass is there for the caller once done has
// been called; that of later passes, which other weights have seen, is not.
func (p *passes) next(n int) (minis [][]data.Row, done func()) {
	done = func() {}
	rows, spans := p.rows, p.spans
	switch {
	case p.order != nil:
		rows, spans = nil, nil
		drawn := p.order.Next(len(p.spans))
		for _, i := range drawn {
			s := p.spans[i]
			spans = append(spans, [2]int{len(rows), len(rows) + s[1] - s[0]})
			rows = append(rows, p.rows[s[0]:s[1]]...)
		}
		if n == 0 {
			done = func() {
				for at, i := range drawn {
					copy(p.rows[p.spans[i][0]:p.spans[i][1]], rows[spans[at][0]:spans[at][1]])
				}
			}
		}
	case n > 0:
		rows = slices.Clone(rows)
	}
	for i := range p.miniBatches() {
		mini := spans[len(spans)*i/p.miniBatches() : len(spans)*(i+1)/p.miniBatches()]
		minis = append(minis, rows[mini[0][0]:mini[len(mini)-1][1]])
	}
	return minis, done
}
