package plan

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/generate"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/optim"
)

// A pass over T tokens holds the activations of its layers until the backward pass,
// and a transient part while one layer is computed again or differentiated. Both are
// linear in T, since attention keeps no matrix of scores (agent/llm/model). The time of
// a pass and of a decoding step is linear in the number of layers and in the size of
// the vocabulary. So three probes with random weights suffice: one layer, two
// layers, and one layer with half of the vocabulary.

const (
	probeTokens     = 256  // tokens of a probe's pass
	probeVocabulary = 8192 // most entries of a probe's vocabulary
	probeRepeats    = 3    // measurements of a time; the shortest counts
	probeDecodes    = 4    // tokens decoded per sequence
)

// Options describe the model of a run.
type Options struct {
	Config        model.Config
	LoRA          *model.LoRA // nil: all weights are trained
	Compute       torch.DType
	Checkpointing bool
	Int8          bool // replies are sampled with int8 copies of the weights
	Rows          int  // sequences that are decoded at once
	Untimed       bool // measure only the memory
}

// linear is a quantity of a model with L layers and a vocabulary of V entries:
// base + L·layer + V·entry.
type linear struct{ base, layer, entry float64 }

func (l linear) of(c *model.Config) float64 {
	return max(0, l.base+float64(c.NumHiddenLayers)*l.layer+float64(c.VocabSize)*l.entry)
}

// Costs are the measured costs of a model.
type Costs struct {
	o         Options
	kept      linear // bytes of activations per token
	transient float64
	prefill   linear // seconds per token
	decode    linear // seconds per step of Options.Rows sequences
	forward   linear // seconds per token of a pass without gradients
	update    linear // seconds per token of a forward and a backward pass
	trained   linear // number of trained weights
	optimize  float64
}

// probe holds the measurements of one small model.
type probe struct {
	kept, transient                             float64 // bytes per token
	prefill, decode, forward, update, optimizer float64 // seconds
	trained                                     float64
}

// Measure measures the costs of a model on the thread's device. The memory of the model is
// measured as memory of the process, so it is known only if the device is a CPU.
func Measure(ctx context.Context, t *torch.Thread, o Options) (*Costs, error) {
	small := o.Config
	small.NumHiddenLayers, small.VocabSize = 1, min(o.Config.VocabSize, probeVocabulary)
	small.MaxPositionEmbeddings = max(small.MaxPositionEmbeddings, 2*probeTokens)
	small.EOSTokenIDs, small.PadTokenID = nil, nil
	deeper, narrower := small, small
	deeper.NumHiddenLayers, narrower.VocabSize = 2, small.VocabSize/2
	if err := affordable(o, deeper); err != nil {
		return nil, err
	}
	var p [3]probe
	for i, c := range []model.Config{small, deeper, narrower} {
		var err error
		if p[i], err = measure(ctx, t, o, c); err != nil {
			return nil, fmt.Errorf("measure a model of %d layers: %w", c.NumHiddenLayers, err)
		}
	}
	fit := func(of func(probe) float64) linear {
		one, two, half := of(p[0]), of(p[1]), of(p[2])
		l := linear{layer: max(0, two-one), entry: max(0, one-half) / float64(small.VocabSize-narrower.VocabSize)}
		l.base = one - l.layer - float64(small.VocabSize)*l.entry
		return l
	}
	c := &Costs{
		o:         o,
		kept:      fit(func(p probe) float64 { return p.kept }),
		transient: max(p[0].transient, p[1].transient),
		prefill:   fit(func(p probe) float64 { return p.prefill / probeTokens }),
		decode:    fit(func(p probe) float64 { return p.decode }),
		forward:   fit(func(p probe) float64 { return p.forward / probeTokens }),
		update:    fit(func(p probe) float64 { return p.update / probeTokens }),
		trained:   fit(func(p probe) float64 { return p.trained }),
		optimize:  p[1].optimizer / p[1].trained,
	}
	c.kept.entry = 0 // the kept activations do not depend on the vocabulary
	return c, nil
}

// affordable returns an error if the free memory of the machine does not hold the weights, gradients and moments of the
// largest probe.
func affordable(o Options, c model.Config) error {
	n, err := c.NumParameters()
	if err != nil {
		return err
	}
	width := o.Compute.Size()
	each := 4 + 4 + 8 + 2*width // weights, gradients and moments in float32, weights and gradients in the compute dtype
	if o.LoRA != nil {
		each = width
	}
	if free, known := torch.FreeMemory(); known && int64(n)*int64(each) > free {
		return errext.With(errext.Check, "plan on a machine with more free memory", fmt.Errorf("a plan measures a model of %d layers with these widths, which needs %.1f GB of memory, and %.1f GB are free",
			c.NumHiddenLayers, float64(n)*float64(each)/1e9, float64(free)/1e9))
	}
	return nil
}

// measure measures a small model.
func measure(ctx context.Context, t *torch.Thread, o Options, c model.Config) (p probe, err error) {
	dt := torch.Float32
	if o.LoRA != nil {
		dt = o.Compute
	}
	m, err := model.New(ctx, t, c, 1, dt)
	if err != nil {
		return p, err
	}
	if o.LoRA != nil {
		if err := m.AddLoRA(ctx, *o.LoRA, 1); err != nil {
			m.Close()
			return p, err
		}
	}
	a, err := learner.NewActor(ctx, m, o.Compute, optim.AdamWOptions{Beta1: .9, Beta2: .999, Eps: 1e-8})
	if err != nil {
		m.Close()
		return p, err
	}
	defer a.Close()
	a.SetGradientCheckpointing(o.Checkpointing)
	for _, w := range m.Trained() {
		p.trained += float64(w.Tensor.Numel())
	}
	row := data.Row{UID: "probe", Tokens: make([]int32, probeTokens), Mask: slices.Repeat([]uint8{1}, probeTokens)}
	for i := range row.Tokens {
		row.Tokens[i] = int32(i % c.VocabSize)
	}
	rows := []data.Row{row}
	if err := p.measureMemory(ctx, a, rows); err != nil {
		return p, err
	}
	if o.Untimed {
		return p, nil
	}
	// An update of two equal rows in two micro-batches has one more pass than an update of one row.
	single, err := shortest(func() error { return update(ctx, a, rows) })
	if err != nil {
		return p, err
	}
	double, err := shortest(func() error { return update(ctx, a, []data.Row{row, row}) })
	if err != nil {
		return p, err
	}
	p.update = max(double-single, single/2)
	p.optimizer = max(0, single-p.update)
	if p.forward, err = shortest(func() error {
		return learner.LogProbs(ctx, a.Compute(), rows, learner.MicroBatching{}, 1, learner.OldLogProbs)
	}); err != nil {
		return p, err
	}
	return p, p.measureSampling(ctx, a.Compute(), o)
}

// update does one optimiser step with a micro-batch per row.
func update(ctx context.Context, a *learner.Actor, rows []data.Row) error {
	_, err := a.UpdateSFT(ctx, rows, 0, 1, learner.MicroBatching{Rows: 1})
	return err
}

// shortest returns the seconds of the shortest of several calls.
func shortest(f func() error) (seconds float64, err error) {
	for i := range probeRepeats {
		began := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		if took := time.Since(began).Seconds(); i == 0 || took < seconds {
			seconds = took
		}
	}
	return seconds, nil
}

// measureMemory measures the activations at the beginning of the backward pass, and the most memory during it.
func (p *probe) measureMemory(ctx context.Context, a *learner.Actor, rows []data.Row) error {
	for range 2 { // the first update also allocates buffers of the libraries
		before, kept := torch.HeapBytes(), int64(0)
		peak := watchHeap()
		a.SpoilLoss(func(loss torch.Tensor) torch.Tensor {
			kept = torch.HeapBytes() - before
			return loss
		})
		err := update(ctx, a, rows)
		a.SpoilLoss(nil)
		most := peak() - before
		if err != nil {
			return err
		}
		p.kept = float64(kept) / probeTokens
		gradients := 4 * p.trained
		logits := float64(logitsBytes(probeTokens, a.Compute().Config.VocabSize))
		p.transient = max(0, float64(most)-float64(kept)-gradients-logits) / probeTokens
	}
	return nil
}

// watchHeap samples the native heap until the returned function is called, which returns the largest size.
func watchHeap() func() int64 {
	stop, peak := make(chan struct{}), make(chan int64)
	go func() {
		most := int64(0)
		for {
			most = max(most, torch.HeapBytes())
			select {
			case <-stop:
				peak <- most
				return
			case <-time.After(100 * time.Microsecond):
			}
		}
	}()
	return func() int64 {
		close(stop)
		return <-peak
	}
}

// measureSampling measures the prompt's pass and the decoding steps of an engine.
func (p *probe) measureSampling(ctx context.Context, m *model.Model, o Options) error {
	rows := o.Rows
	backend, err := generate.New(ctx, m, generate.Options{KVTokens: probeTokens + rows*generate.DefaultBlockSize, Int8: o.Int8})
	if err != nil {
		return err
	}
	defer backend.Close()
	prompt := make([]int32, probeTokens)
	if p.prefill, err = shortest(func() error {
		_, err := backend.Step(ctx, []engine.Work{{Seq: 1, Tokens: prompt}})
		return err
	}); err != nil {
		return err
	}
	backend.Drop(1)
	for n := range probeDecodes {
		work := make([]engine.Work, rows)
		for i := range work {
			work[i] = engine.Work{Seq: engine.SeqID(i + 1), Tokens: prompt[:1], Pos: n, Sample: true, Temperature: 1, TopP: 1}
		}
		began := time.Now()
		if _, err := backend.Step(ctx, work); err != nil {
			return err
		}
		if took := time.Since(began).Seconds(); n == 0 || took < p.decode {
			p.decode = took
		}
	}
	return nil
}
