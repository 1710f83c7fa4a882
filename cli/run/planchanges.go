package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch/shard"
)

// errNoChange is returned if no setting makes a run fit.
var errNoChange = errors.New("no setting of micro-batches, dist.shard, gradient checkpointing, rollout.max_sequences and adapters makes this model fit: take a smaller model, lower rollout.max_context_tokens, or use a machine with more memory")

// changes returns settings with which the run fits. It shards the optimiser and lowers the micro-batches first, which costs
// the least time, and adds adapters last, which change the method.
func (p *planner) changes(ctx context.Context, cfg configs.Config) ([]Change, error) {
	length := cfg.Rollout.MaxContextTokens
	episodes := cfg.Data.TrainBatchSize * cfg.Rollout.GroupSize
	// Each entry makes one change and reports whether it can be made again.
	type reduction struct {
		key    string
		reduce func() (value string, ok bool)
	}
	halve := func(key string, v *int, most, least int) reduction {
		return reduction{key, func() (string, bool) {
			if now := cmp.Or(min(*v, most), most); now > least {
				*v = max(least, now/2)
				return fmt.Sprint(*v), true
			}
			return "", false
		}}
	}
	// Micro-batches of a number of rows must divide the batch.
	divide := func(key string, v *int, batch int) reduction {
		return reduction{key, func() (string, bool) {
			for n := cmp.Or(min(*v, batch), batch) / 2; n > 0; n-- {
				if batch%n == 0 {
					*v = n
					return fmt.Sprint(n), true
				}
			}
			return "", false
		}}
	}
	once := func(key, value string, set func() bool) reduction {
		return reduction{key, func() (string, bool) { return value, set() }}
	}
	actor := divide("actor.micro_batch_size", &cfg.Actor.MicroBatchSize, cmp.Or(cfg.Actor.MiniBatchSize, episodes))
	if cfg.Actor.DynamicBatch {
		actor = halve("actor.max_tokens_per_micro_batch", &cfg.Actor.MaxTokensPerMicroBatch, episodes*length, length)
	}
	raise := func(to shard.Level) reduction {
		return reduction{"dist.shard", func() (string, bool) {
			level := p.ranks(cfg).Level
			if level >= to || p.ranks(cfg).Trainers == 1 || to == shard.Weights && cfg.Trainer.AsyncSteps > 0 {
				return "", false
			}
			cfg.Dist.Shard = (level + 1).String()
			return cfg.Dist.Shard, true
		}}
	}
	list := []reduction{raise(shard.Optimizer), actor} // the level optimizer sends as many bytes as none
	if cfg.UsesCritic() && !cfg.Critic.Shared && !cfg.Actor.DynamicBatch {
		list = append(list, divide("critic.micro_batch_size", &cfg.Critic.MicroBatchSize, cmp.Or(cfg.Critic.MiniBatchSize, episodes)))
	}
	if cfg.SFT.Epochs > 0 && !cfg.SFT.DynamicBatch {
		list = append(list, divide("sft.micro_batch_size", &cfg.SFT.MicroBatchSize, cfg.SFT.TrainBatchSize))
	}
	if f := &cfg.Model.Fresh; f.Layers > 0 && f.Walks > 0 {
		list = append(list, halve("model.fresh.walk_batch_size", &f.WalkBatchSize, f.WalkBatchSize, 1))
	}
	list = append(list,
		halve("rollout.max_sequences", &cfg.Rollout.MaxSequences, min(cfg.Rollout.MaxSequences, cfg.Agent.MaxWorkers), 1),
		once("model.gradient_checkpointing", "true", func() bool {
			was := cfg.Model.GradientCheckpointing
			cfg.Model.GradientCheckpointing = true
			return !was
		}),
		raise(shard.Gradients), raise(shard.Weights),
		once("model.lora_rank", "16", func() bool {
			m := &cfg.Model
			if m.LoRARank > 0 || m.Fresh.Layers > 0 || cfg.UsesCritic() {
				return false
			}
			m.LoRARank = 16
			return true
		}))
	before, err := p.predict(ctx, cfg, false)
	if err != nil {
		return nil, err
	}
	var made []Change
	add := func(c Change) { // instead of an earlier value of the key
		made = append(slices.DeleteFunc(made, func(old Change) bool { return old.Key == c.Key }), c)
	}
	for _, r := range list {
		last, best := Change{}, cfg
		for {
			value, ok := r.reduce()
			if !ok {
				break
			}
			now, err := p.predict(ctx, cfg, false)
			if err != nil {
				return nil, err
			}
			if now.Compared() < before.Compared() {
				last, best = Change{r.key, value, now.Compared()}, cfg
				before = now
			}
			if now.Fits() {
				add(last)
				return made, nil
			}
		}
		if cfg = best; last.Key != "" {
			add(last)
		}
	}
	return nil, errext.With(errext.Check, "", errNoChange)
}
