package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/openmanus/openmanus/agent/llm/generate"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/optim"
)

// Ours runs jobs in this process: generation with the scheduler, as in a rollout,
// and training as in an update.
type Ours struct {
	thread  *torch.Thread
	model   *model.Model // trained by the jobs
	compute *model.Model // generates, and computes the passes of training: model, or with Job.Master a copy of it in the run's type
	bundle  *model.Bundle
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
	master := slices.ContainsFunc(jobs, func(j Job) bool { return j.Master })
	loaded := dtype
	if master {
		loaded = torch.Float32
	}
	if o.bundle, err = model.Open(ctx, o.thread, path, model.Options{DType: loaded, TokenizerOptional: true}); err != nil {
		return nil, err
	}
	o.model, o.compute = o.bundle.Model, o.bundle.Model
	o.open.AddFunc(o.bundle.Close)
	if loaded != dtype {
		if o.compute, err = o.model.Shadow(ctx, dtype); err != nil {
			return nil, err
		}
		o.open.AddFunc(o.compute.Close)
	}
	return o, o.reserve(ctx, jobs)
}

// reserve makes a KV cache for the largest of the jobs, instead of the one before. Sessions share no cached tokens, because jobs repeat their texts.
func (o *Ours) reserve(ctx context.Context, jobs []Job) (err error) {
	cache := run.SamplerOptions{
		Sequences: 1, MaxContext: generate.DefaultBlockSize, MemoryShare: 1, Utilization: 0.9, Plain: true, NoSharing: true, Day: time.Now(),
	}
	for _, j := range jobs {
		blocks := (j.context() + generate.DefaultBlockSize - 1) / generate.DefaultBlockSize
		cache.EnforceEager = cache.EnforceEager || j.Eager
		if j.Int8 {
			cache.WeightDType = configs.Int8
		}
		cache.Sequences = max(cache.Sequences, j.Batch)
		cache.MaxContext = max(cache.MaxContext, blocks*generate.DefaultBlockSize)
	}
	if o.sampler != nil {
		o.sampler.Close()
		o.sampler = nil
	}
	o.sampler, err = run.NewSampler(ctx, o.bundle, o.compute, cache)
	return err
}

// Close releases the resources in reverse order of opening.
func (o *Ours) Close() {
	if o.adamw != nil {
		o.adamw.Close()
	}
	if o.sampler != nil {
		o.sampler.Close()
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
