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

// train times one optimiser step: forward, mean token loss, backward, clipping
// of the gradient to norm 1, AdamW.
func (o *Ours) train(ctx context.Context, j Job) (time.Duration, error) {
	if err := o.prepare(ctx); err != nil {
		return 0, err
	}
	rng := rand.New(rand.NewPCG(2, 0))
	var rows [][]int32
	for row := range j.Batch {
		rows = append(rows, o.ids(rng, j.length(row)))
	}
	ids, positions, offsets := model.Pack(rows...)
	targets := model.NextTokens(ids, offsets)
	predicted := float64(len(ids) - j.Batch)

	began := time.Now()
	err := o.sampler.Scheduler.Exclusive(ctx, func() error {
		defer o.sampler.Backend.SetVersion(int64(o.runs)) // discard cached keys and values, which belong to the old weights
		return torch.Run(ctx, o.thread, func(s *torch.Scope) error {
			logp, _ := o.model.TokenLogProbs(o.model.Forward(s, ids, positions, offsets), targets, nil, 1, false)
			logp.Sum().MulScalar(-1 / predicted).Backward()
			_, err := o.adamw.Step(s, learningRate, 1)
			return err
		})
	})
	return time.Since(began), err
}

// prepare creates the optimiser for the first training job.
func (o *Ours) prepare(ctx context.Context) error {
	if o.adamw != nil {
		return nil
	}
	return torch.Run(ctx, o.thread, func(*torch.Scope) error {
		o.model.SetTrainable(true)
		var params []optim.Param
		for _, p := range o.model.Params() {
			params = append(params, optim.Param{Name: p.Name, Tensor: p.Tensor})
		}
		o.adamw = optim.NewAdamW(o.thread, params, optim.DefaultAdamW())
		return nil
	})
}
