package run

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/openmanus/openmanus/agent/llm/generate"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/algo/ranks"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
)

// lead calls f, which plays, on rank 0. Meanwhile the other ranks run the steps of its engine on their parts of the model. If f fails,
// lead returns an error on all ranks. An interrupt ends f; the other ranks return after it.
func (p *player) lead(ctx context.Context, f func() error) error {
	whole := context.WithoutCancel(ctx)
	return p.host.Ranks.Each(whole, func() (err error) {
		switch {
		case p.sampler == nil: // an endpoint or a person replies
			return f()
		case p.host.Ranks == nil:
			return f()
		}
		return leadOrFollow(whole, p.sampler.Backend, p.host.Ranks.Rank(), f)
	})
}

// leadOrFollow calls f, which plays, on rank 0 of those that hold the model. The others run the steps of its engine.
func leadOrFollow(ctx context.Context, b *generate.Backend, rank int, f func() error) (err error) {
	if rank > 0 {
		return b.Follow(ctx)
	}
	if err := b.Lead(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Dismiss()) }()
	return f()
}

// checkTensorParallel returns an error if rollout.tensor_parallel_size does not fit the other settings of a training run. serves
// reports whether the run serves agents in other programs.
func checkTensorParallel(cfg configs.Config, processes int, serves bool) error {
	n := cfg.Rollout.TensorParallel
	const key = "rollout.tensor_parallel_size"
	switch {
	case n == 1:
		return nil
	case processes%n != 0:
		return errext.With(errext.Input, fmt.Sprintf("start a multiple of %d processes, for example with --processes %d, or set %s to 1", n, n, key),
			fmt.Errorf("%s is %d, but the number of processes is %d", key, n, processes))
	case serves:
		return errext.With(errext.Input, fmt.Sprintf("set %s to 1", key), fmt.Errorf("%s is %d: agents of serve.listen can use only whole models", key, n))
	case cfg.Dist.RolloutProcesses > 0:
		return errext.With(errext.Input, fmt.Sprintf("set %s to 1, or dist.rollout_processes to 0", key),
			fmt.Errorf("%s is %d: processes that only play can use only whole models", key, n))
	case cfg.Trainer.AsyncSteps > 0:
		return errext.With(errext.Input, fmt.Sprintf("set %s to 1, or trainer.async_steps to 0", key),
			fmt.Errorf("%s is %d: episodes that are played during updates can use only whole models", key, n))
	}
	return nil
}

// generator returns the model that generates: the actor's or, if several ranks hold the model together, this rank's part. It is a
// collective of the ranks between which the actor's weights are divided.
func (t *training) generator(ctx context.Context) (*model.Model, error) {
	n, r := t.cfg.Rollout.TensorParallel, t.host.Ranks
	if n == 1 {
		return t.actor.Compute(), nil
	}
	members := make([]int, n)
	for i := range members {
		members[i] = r.Rank()/n*n + i
	}
	group, err := r.Connect(ctx, fmt.Sprintf("tensor%d", members[0]), members, Seconds(t.cfg.Dist.TimeoutS))
	if err != nil {
		return nil, errext.With(errext.Native, "", err)
	}
	if t.part, err = t.actor.Compute().TensorParallel(ctx, group.Group(), t.compute); err != nil {
		return nil, errext.With(errext.Model, "", err)
	}
	t.open.AddFunc(t.part.Close)
	return t.part, nil
}

// together describes the ranks that hold the model together.
func (t *training) together() algo.Together {
	if t.part == nil {
		return algo.Together{}
	}
	backend, copied := t.sampler.Backend, int64(-1)
	return algo.Together{Size: t.part.Ranks().Size(), Play: func(ctx context.Context, play func() error) error {
		return copyAndPlay(t.host.Ranks, func() error {
			v := backend.Version()
			if v == copied {
				return nil
			}
			copied = v
			return torch.Run(ctx, t.part.Thread(), func(s *torch.Scope) error {
				t.part.CopyWeights(s, t.actor.Compute())
				return nil
			})
		}, func() error { return leadOrFollow(ctx, backend, t.part.Ranks().Rank(), play) })
	}}
}

// copyAndPlay calls copyWeights and then play. If copyWeights fails, it breaks the connections of r: the other ranks are inside a collective
// of the copy, or wait for this rank's part of a step.
func copyAndPlay(r *ranks.Ranks, copyWeights, play func() error) error {
	if err := copyWeights(); err != nil {
		r.Break()
		return err
	}
	return play()
}

// smallestBudget returns the smallest budget for the KV cache of the ranks that hold m, in bytes, if one is known.
func smallestBudget(ctx context.Context, m *model.Model, budget int64, known bool) (int64, bool, error) {
	if !known {
		budget = -1
	}
	err := torch.Run(ctx, m.Thread(), func(s *torch.Scope) error {
		parts, err := m.Ranks().GatherBytes(ctx, s, binary.LittleEndian.AppendUint64(nil, uint64(budget)))
		if err != nil {
			return err
		}
		for _, p := range parts {
			if b := int64(binary.LittleEndian.Uint64(p)); b >= 0 && (budget < 0 || b < budget) {
				budget = b
			}
		}
		return nil
	})
	return max(budget, 0), budget >= 0, errext.With(errext.Native, "", err)
}
