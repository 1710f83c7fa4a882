package learner

// Several passes over one batch (verl's ppo_epochs and shuffle): every pass cuts the
// episodes into mini-batches and makes one optimiser step of each. Old log-probs,
// values, advantages and returns are from before the first pass.
//
// Differs from verl in: a pass shuffles episodes, not rows; the order depends on the
// run's seed, the step and the pass alone, so a resumed run has the same order; a pass of one
// mini-batch is not shuffled, since its gradient is a sum; if episodes were left out,
// the mini-batches have sizes that differ by at most one, since the episodes of a smaller
// mini-batch would have a higher weight.

import (
	"slices"

	"github.com/openmanus/openmanus/data"
)

// Passes configures the passes of an update over its rows.
type Passes struct {
	Epochs  int  // number of passes; 0: one
	Shuffle bool // draw the episodes of each mini-batch anew in every pass
}

// Count returns the number of passes.
func (p Passes) Count() int { return max(1, p.Epochs) }

// OptimizerSteps returns the number of optimiser steps of an update of the rows. size
// is the number of episodes of a mini-batch; 0 means all episodes.
func (p Passes) OptimizerSteps(rows []data.Row, size int) (int, error) {
	over, err := newPasses(rows, size, Passes{Epochs: p.Epochs}, 0)
	if err != nil {
		return 0, err
	}
	return over.steps(), nil
}

// passes iterates over the mini-batches of one update.
type passes struct {
	Passes
	rows  []data.Row
	spans [][2]int // range of rows of each episode
	size  int      // bound on the episodes of a mini-batch
	order *data.Order
	first [][]data.Row // mini-batches of the first pass, set when it has ended
}

// newPasses prepares passes over rows. size is the number of episodes of a mini-batch; 0 means all.
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

// miniBatches returns the number of mini-batches of a pass.
func (p *passes) miniBatches() int { return (len(p.spans) + p.size - 1) / p.size }

// steps returns the number of optimiser steps of all passes. Steps without a token in
// the loss are counted too.
func (p *passes) steps() int { return p.Count() * p.miniBatches() }

// update calls the function step with every mini-batch, pass after pass. step adds the optimiser
// steps that it does to *steps. If step fails after an optimiser step, the
// weights are inconsistent.
func (a *Actor) update(p *passes, steps *int, step func(mini []data.Row) error) (err error) {
	defer func() { a.inconsistent = a.inconsistent || err != nil && *steps > 0 }()
	for n := range p.Count() {
		minis, done := p.next(n)
		for _, mini := range minis {
			if err := step(mini); err != nil {
				return err
			}
		}
		done()
		if n == 0 {
			p.first = minis
		}
	}
	return nil
}

// next returns the mini-batches of the n-th pass, counted from 0. It must be called for the
// passes in order. The caller calls done after the pass: after the first pass, done copies the
// new fields of the mini-batches to the rows; after later passes it does nothing.
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
