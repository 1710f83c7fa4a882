package main

import (
	"time"

	"github.com/openmanus/openmanus/agent/llm/model"
)

// Work has the operations and the bytes that a job needs at least. The shortest possible time of a pass through the model is that of its
// operations at the machine's rate of matrix products, or that of reading its bytes, whichever is longer.
type Work struct {
	linear    float64 // operations of the linear layers of all blocks for one token
	attention float64 // operations of attention for one token and one token before it
	head      float64 // operations of the head for one token
	weights   float64 // bytes of the weights that a decoding step reads
	cached    float64 // bytes of a cached token that a decoding step reads
}

// workOf returns the work of a model with weights of the given number of bytes each.
func workOf(c model.Config, cost model.Cost, size int) Work {
	head := c.VocabSize * c.HiddenSize
	return Work{
		linear:    2 * float64(cost.Linear),
		attention: 4 * float64(cost.Attention),
		head:      2 * float64(head),
		weights:   float64(size) * float64(cost.Linear+head),
		cached:    float64(size) * float64(2*c.NumHiddenLayers*c.NumKeyValueHeads*c.HeadDim),
	}
}

// read returns the operations of n tokens after `before` tokens, without the head.
func (w Work) read(n, before int) float64 {
	seen := float64(n)*float64(before) + float64(n)*float64(n+1)/2 // sum of the tokens that each token attends to
	return float64(n)*w.linear + seen*w.attention
}

// prefill returns the shortest time of rows of n tokens each after `before` tokens, and of one logit vector a row.
func (w Work) prefill(m Machine, rows, n, before int) float64 {
	return float64(rows) * (w.read(n, before) + w.head) / (m.GFLOPs * 1e9)
}

// steps returns the shortest time of n decoding steps of a batch of rows after `before` tokens each.
func (w Work) steps(m Machine, rows, n, before int) (seconds float64) {
	for i := range n {
		context := float64(before + i + 1)
		flops := float64(rows) * (w.linear + w.head + context*w.attention)
		bytes := w.weights + float64(rows)*context*w.cached
		seconds += max(flops/(m.GFLOPs*1e9), bytes/(m.GBPerSec*1e9))
	}
	return seconds
}

// train returns the shortest time of a step on rows of the given lengths: forward, and twice as much backward.
func (w Work) train(m Machine, lengths []int) float64 {
	flops := 0.0
	for _, n := range lengths {
		flops += w.read(n, 0) + float64(n)*w.head
	}
	return 3 * flops / (m.GFLOPs * 1e9)
}

// bound returns the shortest time of a job. Conversations move in lock step: what each turn adds is read by all at once, and all
// that still play decode together.
func (w Work) bound(m Machine, j Job) time.Duration {
	seconds := 0.0
	switch j.Kind {
	case Prefill:
		for _, n := range j.lengths() {
			seconds += w.prefill(m, 1, n, 0)
		}
	case Decode:
		seconds = w.steps(m, j.Batch, j.New, j.Context)
	case Turns:
		for turn, before := 0, 0; turn < j.Turns; turn++ {
			playing := 0
			for _, n := range j.played() {
				if n > turn {
					playing++
				}
			}
			given := j.Observation
			if turn == 0 {
				given = j.Prompt
			}
			seconds += w.prefill(m, playing, given, before) + w.steps(m, playing, j.New-1, before+given)
			before += given + j.New
		}
	case Train:
		seconds = w.train(m, j.lengths())
	}
	return time.Duration(seconds * float64(time.Second))
}
