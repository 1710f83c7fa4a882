package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/optim"
)

// learningRate is so small that the weights of later jobs hardly change. It does
// not affect the amount of work.
const learningRate = 1e-6

// passTokens is the largest number of tokens of a pass in training, unless one row has more.
const passTokens = 2048

// train times one optimiser step: forward, mean token loss, backward, clipping
// of the gradient to norm 1, AdamW.
func (o *Ours) train(ctx context.Context, j Job) (time.Duration, error) {
	if err := o.prepare(ctx); err != nil {
		return 0, err
	}
	rng := rand.New(rand.NewPCG(2, 0))
	var passes [][][]int32
	for _, rows := range passesOf(j.lengths()) {
		var pass [][]int32
		for _, n := range rows {
			pass = append(pass, o.ids(rng, n))
		}
		passes = append(passes, pass)
	}
	predicted := float64(sum(j.lengths()) - j.Batch)

	began := time.Now()
	err := o.sampler.Scheduler.Exclusive(ctx, func() error {
		defer o.sampler.Backend.SetVersion(int64(o.runs)) // discard cached keys and values, which belong to the old weights
		return torch.Run(ctx, o.thread, func(s *torch.Scope) error {
			for _, pass := range passes {
				s.Do(func(s *torch.Scope) {
					ids, positions, offsets := model.Pack(pass...)
					logp, _ := o.compute.TokenLogProbs(o.compute.Forward(s, ids, positions, offsets), model.NextTokens(ids, offsets), nil, 1, false)
					logp.Sum().MulScalar(-1 / predicted).Backward()
					if o.compute != o.model {
						o.model.MoveGrads(s, o.compute)
					}
				})
			}
			_, err := o.adamw.Step(s, learningRate, 1)
			if err == nil && o.compute != o.model {
				s.NoGrad(func() { o.compute.CopyFrom(s, o.model) })
			}
			return err
		})
	})
	return time.Since(began), err
}

// passesOf deals rows to passes in their order.
func passesOf(lengths []int) (passes [][]int) {
	tokens := 0
	for _, n := range lengths {
		if len(passes) == 0 || tokens+n > passTokens {
			passes, tokens = append(passes, nil), 0
		}
		last := len(passes) - 1
		passes[last], tokens = append(passes[last], n), tokens+n
	}
	return passes
}

// prepare creates the optimiser for the first training job.
func (o *Ours) prepare(ctx context.Context) error {
	if o.adamw != nil {
		return nil
	}
	return torch.Run(ctx, o.thread, func(*torch.Scope) error {
		o.model.SetTrainable(true)
		o.compute.SetTrainable(true)
		var params []optim.Param
		for _, p := range o.model.Params() {
			params = append(params, optim.Param{Name: p.Name, Tensor: p.Tensor})
		}
		o.adamw = optim.NewAdamW(o.thread, params, optim.DefaultAdamW())
		return nil
	})
}
