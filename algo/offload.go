package algo

import (
	"context"
	"errors"

	"github.com/openmanus/openmanus/algo/kl"
	"github.com/openmanus/openmanus/algo/learner"
)

// Offloading keeps tensors in host memory while no phase uses them, to leave the
// device's memory to the KV cache and the activations: the reference, except while it
// computes log-probs, and the optimisers' moments, except during an update. On a CPU it
// does nothing.

// fetchRef moves the reference to its device. back moves it to the host again.
func (c *core) fetchRef(ctx context.Context) (back func() error, err error) {
	if !c.o.OffloadRef || c.Ref == nil {
		return stay, nil
	}
	return learner.FetchModel(ctx, "the reference", c.Ref)
}

// fetchOptimizer is fetchRef for the moments of the actor's optimiser.
func (c *core) fetchOptimizer(ctx context.Context) (back func() error, err error) {
	if !c.o.OffloadOptimizer {
		return stay, nil
	}
	return c.Actor.FetchOptimizer(ctx)
}

// fetchCritic is fetchRef for the moments of the critic's own optimiser.
func (c *core) fetchCritic(ctx context.Context) (back func() error, err error) {
	if !c.o.OffloadCritic || c.Critic == nil || c.Critic.Shared() {
		return stay, nil
	}
	return c.Critic.FetchOptimizer(ctx)
}

// fetchForUpdate moves the tensors of an actor update to their device: the moments, and
// the reference if the loss runs it.
func (c *core) fetchForUpdate(ctx context.Context) (back func() error, err error) {
	ref := stay
	if c.o.Policy.KLCoef != 0 && c.o.Policy.KLType == kl.Full {
		if ref, err = c.fetchRef(ctx); err != nil {
			return nil, err
		}
	}
	moments, err := c.fetchOptimizer(ctx)
	if err != nil {
		return nil, errors.Join(err, ref())
	}
	return func() error { return errors.Join(moments(), ref()) }, nil
}

// offload moves all offloaded tensors to the host before the first step.
func (c *core) offload(ctx context.Context) error {
	for _, f := range []func(context.Context) (func() error, error){c.fetchRef, c.fetchOptimizer, c.fetchCritic} {
		back, err := f(ctx)
		if err != nil {
			return err
		}
		if err := back(); err != nil {
			return err
		}
	}
	return nil
}

func stay() error { return nil }
