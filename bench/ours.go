package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/openmanus/openmanus/agent/llm/generate"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/optim"
)

// Ours runs jobs in this process: generation with the scheduler, as in a rollout,
// and training as in an update.
type Ours struct {
	thread  *torch.Thread
	model   *model.Model
	sampler *run.Sampler
	adamw   *optim.AdamW
	open    run.Closers
	runs    int           // number of runs of all jobs; part of the session keys
	cpu     time.Duration // CPU time of this process in the timed part of the last generation job
}

// OpenOurs loads the model in the given type onto a device and reserves a KV cache for the largest job.
func OpenOurs(ctx context.Context, path, device string, dtype torch.DType, jobs []Job) (o *Ours, err error) {
	o = &Ours{}
	defer func() {
		if err != nil {
			o.Close()
		}
	}()
	host := run.Host{}.WithDefaults()
	if o.thread, err = run.OpenThread(&host, device); err != nil {
		return nil, err
	}
	o.open.AddFunc(o.thread.Close)
	bundle, err := model.Open(ctx, o.thread, path, model.Options{DType: dtype, TokenizerOptional: true})
	if err != nil {
		return nil, err
	}
	o.model = bundle.Model
	o.open.AddFunc(bundle.Close)
	cache := run.SamplerOptions{Sequences: 1, MaxContext: generate.DefaultBlockSize, MemoryShare: 1, Utilization: 0.9, Plain: true, Day: time.Now()}
	for _, j := range jobs {
		blocks := (j.context() + generate.DefaultBlockSize - 1) / generate.DefaultBlockSize
		cache.EnforceEager = cache.EnforceEager || j.Eager
		cache.Sequences = max(cache.Sequences, j.Batch)
		cache.MaxContext = max(cache.MaxContext, blocks*generate.DefaultBlockSize)
	}
	if o.sampler, err = run.NewSampler(ctx, bundle, o.model, cache); err != nil {
		return nil, err
	}
	o.open.AddFunc(o.sampler.Close)
	return o, nil
}

// Close releases the resources in reverse order of opening.
func (o *Ours) Close() {
	if o.adamw != nil {
		o.adamw.Close()
	}
	_ = o.open.Close() // no function in the field open returns an error
}

// Run runs a job once and returns the duration of the timed part.
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
		err = fmt.Errorf("unknown kind of job %q", j.Kind)
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
