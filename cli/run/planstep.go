package run

import (
	"cmp"
	"context"
	"fmt"

	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/plan"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/torch/shard"
)

// step returns the largest sizes of a configuration's steps.
func (p *planner) step(ctx context.Context, cfg configs.Config, costs *plan.Costs) (plan.Step, error) {
	length, ranks := cfg.Rollout.MaxContextTokens, p.ranks(cfg)
	s := plan.Step{
		Episodes: cfg.Data.TrainBatchSize * cfg.Rollout.GroupSize, Context: length,
		Sessions: rolloutOptions(p.host, cfg).Concurrency, Ranks: ranks,
		Passes: cfg.Actor.PPOEpochs, Reference: cfg.UsesReference(), Critic: cfg.UsesCritic() && !cfg.Critic.Shared,
	}
	for _, e := range cfg.Env {
		turns := e.MaxTurns
		if e.Kind == configs.KindPrompt {
			turns = 1
		}
		s.Sampled = max(s.Sampled, min(length, turns*cfg.Rollout.MaxNewTokens))
	}
	players := ranks.Trainers / ranks.TensorParallel
	if ranks.Workers > 0 {
		players = ranks.Workers
	}
	if cfg.Serve.Listen != "" { // rank 0 serves all agents
		players = 1
	}
	s.Played = each(cfg.Data.TrainBatchSize, players) * cfg.Rollout.GroupSize // groups are dealt
	s.Rows = each(s.Episodes, ranks.Trainers)
	s.Updates = s.Passes
	if n := cfg.Actor.MiniBatchSize; n > 0 {
		s.Updates *= each(s.Episodes, n)
	}
	s.Old = s.Updates > 1 && !cfg.Algo.RolloutCorrection.BypassMode
	micro := func(m learner.MicroBatching, rows, context int) {
		s.MicroTokens = max(s.MicroTokens, m.MostTokens(each(rows, ranks.Trainers), context, !p.onGPU))
	}
	micro(policyOptions(cfg).Micro, s.Episodes, length)
	if s.Critic {
		micro(criticOptions(cfg, 1).Micro, s.Episodes, length)
	}
	if o := cfg.SFT; o.Epochs > 0 {
		micro(microBatching(o.MicroBatchSize, o.DynamicBatch, o.MaxTokens), o.TrainBatchSize, min(length, cmp.Or(o.MaxLength, length)))
	}
	if f := cfg.Model.Fresh; f.Layers > 0 && f.Walks > 0 {
		micro(learner.MicroBatching{}, f.WalkBatchSize, length)
	}
	s.KVFreed = p.onGPU && cfg.FreesKV()
	if s.KVTokens = s.Sessions * length; !p.onGPU {
		s.Other = p.own
	}
	if path := cfg.Reward.ModelPath; path != "" {
		d, err := DescribeModel(ctx, p.host, path)
		if err != nil {
			return s, fmt.Errorf("reward.model_path: %w", err)
		}
		bytes := d.Parameters * p.compute.Size()
		if ranks.Level == shard.Weights {
			bytes = each(bytes, ranks.Trainers)
		}
		s.Other += int64(bytes)
	}
	if p.onGPU && cfg.Ref.OffloadParams {
		s.Reference = false // it is on the host during the update
	}
	if p.available > 0 && !p.onGPU { // kvTokens makes the cache smaller if memory is short
		empty := s
		empty.KVTokens, empty.MicroTokens, empty.Reference, empty.Critic = 0, 0, false, false
		loaded, err := costs.Memory(empty)
		if err != nil {
			return s, err
		}
		n := int64(p.layout.Processes)
		budget := int64(cfg.Rollout.KVCacheFraction * float64(p.available-n*plan.Total(loaded.Parts)) / float64(n))
		s.KVTokens = min(s.KVTokens, max(length, int(budget/costs.KVBytes(ranks.TensorParallel))))
	}
	return s, nil
}

// ranks returns how the processes share the model.
func (p *planner) ranks(cfg configs.Config) plan.Ranks {
	workers := cfg.Dist.RolloutProcesses
	r := plan.Ranks{Trainers: p.layout.Processes*p.layout.Machines - workers, Workers: workers, TensorParallel: cfg.Rollout.TensorParallel}
	if r.Trainers > 1 {
		r.Level, _ = shard.ParseLevel(cfg.Dist.Shard) // the configuration is valid
	}
	return r
}

// each returns the largest share of one of n.
func each(all, n int) int { return (all + n - 1) / n }
