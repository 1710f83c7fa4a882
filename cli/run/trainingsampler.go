package run

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/openmanus/openmanus/internal/errext"
)

// openSampler opens the engine on the actor's weights and completes the setups
// of the environments. All ranks call it.
func (t *training) openSampler(ctx context.Context) error {
	cfg := t.cfg
	maxContext := cfg.Rollout.MaxContextTokens
	err := t.host.Ranks.Each(ctx, func() error {
		switch most := t.bundle.Model.Config.MaxPositionEmbeddings; {
		case maxContext <= most:
		case !t.playsAny(): // no session is opened
			maxContext = most
		default:
			return errext.With(errext.Input, fmt.Sprintf("set rollout.max_context_tokens to %d or less", most),
				fmt.Errorf("the model has %d positions, rollout.max_context_tokens is %d", most, cfg.Rollout.MaxContextTokens))
		}
		return checkTensorParallel(t.cfg, t.host.Ranks.Size(), t.servesAgents())
	})
	if err != nil {
		return err
	}
	_, processes := t.host.Ranks.Local() // which share the host's memory
	share := "rollout.kv_cache_fraction"
	if !t.thread.Device().IsCPU() {
		share = "rollout.gpu_memory_utilization"
	}
	generator, err := t.generator(ctx)
	if err != nil {
		return err
	}
	t.sampler, err = NewSampler(ctx, t.bundle, generator, SamplerOptions{
		Sequences:     t.sessions(),
		MaxContext:    maxContext,
		PrefillTokens: cfg.Rollout.MaxBatchTokens,
		NoSharing:     !cfg.Rollout.PrefixCaching,
		Deterministic: cfg.Rollout.Deterministic,
		MemoryShare:   cfg.Rollout.KVCacheFraction / float64(max(1, processes)),
		Utilization:   cfg.Rollout.GPUUtilization,
		EnforceEager:  cfg.Rollout.EnforceEager,
		WeightDType:   cfg.Rollout.WeightDType,
		Hint:          "lower rollout.max_sequences or rollout.max_context_tokens, or raise " + share,
		Day:           t.day(),
		Ranks:         t.host.Ranks,
	})
	if err != nil {
		return err
	}
	t.open.AddFunc(t.sampler.Close)
	if !t.thread.Device().IsCPU() {
		t.host.Log.Info("KV cache", "bytes", t.sampler.KVBytes)
	}
	for _, e := range t.envs {
		e.setup.Engine, e.setup.Renderer = t.sampler.Scheduler, t.sampler.Renderer
	}
	return nil
}

// day returns the date on which the run began, so that prompts with a date stay
// the same after a resume.
func (t *training) day() time.Time {
	if t.run.state == nil {
		return cmp.Or(t.run.began, t.host.Now())
	}
	return PromptDay(t.host, t.run.state.Day)
}

// sessions returns the maximum number of concurrent sessions. It is 1 if the run
// plays nothing, since the engine needs at least one.
func (t *training) sessions() int {
	if player, _ := t.host.Ranks.Player(); player < 0 || !t.playsAny() {
		return 1
	}
	return rolloutOptions(t.host, t.cfg).Concurrency
}
