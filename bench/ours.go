package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/generate"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/optim"
)

// Ours does jobs in this process: generation through the scheduler as in a
// rollout, training as in an update.
type Ours struct {
	thread  *torch.Thread
	model   *model.Model
	close   []func()
	backend *generate.Backend
	sched   *engine.Scheduler
	adamw   *optim.AdamW
	runs    int // of all jobs; part of the keys of sessions
}

// OpenOurs loads the model and reserves a KV cache for the largest of jobs.
func OpenOurs(ctx context.Context, path string, jobs []Job) (o *Ours, err error) {
	o = &Ours{}
	defer func() {
		if err != nil {
			o.Close()
		}
	}()
	if o.thread, err = torch.NewThread(torch.Device{}); err != nil {
		return nil, err
	}
	o.close = append(o.close, o.thread.Close)
	bundle, err := model.Open(ctx, o.thread, path, model.Options{DType: torch.Float32})
	if err != nil {
		return nil, err
	}
	o.model = bundle.Model
	o.close = append(o.close, bundle.Close)

	tokens := generate.DefaultBlockSize
	for _, j := range jobs {
		blocks := (j.context() + generate.DefaultBlockSize - 1) / generate.DefaultBlockSize
		tokens = max(tokens, j.Batch*blocks*generate.DefaultBlockSize)
	}
	if o.backend, err = generate.New(ctx, o.model, generate.Options{KVTokens: tokens}); err != nil {
		return nil, err
	}
	o.close = append(o.close, o.backend.Close)
	if o.sched, err = engine.New(o.backend, engine.Options{}); err != nil {
		return nil, err
	}
	o.close = append(o.close, o.sched.Shutdown)
	return o, nil
}

// Close frees everything, last opened first.
func (o *Ours) Close() {
	if o.adamw != nil {
		o.adamw.Close()
	}
	for i := len(o.close) - 1; i >= 0; i-- {
		o.close[i]()
	}
}

// Run does a job once and returns how long the timed part took.
func (o *Ours) Run(ctx context.Context, j Job) (time.Duration, error) {
	o.runs++
	var took time.Duration
	var err error
	switch j.Kind {
	case Prefill, Decode, Turns:
		took, err = o.generate(ctx, j)
	case Train:
		took, err = o.train(ctx, j)
	default:
		err = fmt.Errorf("there is no job of kind %q", j.Kind)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", j.Name, err)
	}
	return took, nil
}

// ids draws n tokens that are neither special nor outside the vocabulary.
func (o *Ours) ids(rng *rand.Rand, n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(10 + rng.IntN(o.model.Config.VocabSize-20))
	}
	return out
}
