package algo

import (
	"context"
	"errors"

	"github.com/openmanus/openmanus/algo/kl"
	"github.com/openmanus/openmanus/algo/learner"
)

// Offload keeps what a phase does not need in host memory, so that the KV
// cache and the activations may have the device's: the reference but while it
// scores, the optimisers' moments but while they are updated. On a CPU both
// are there already, and moving them does nothing.

// fetchRef brings the reference to its device; back returns it.
func (c *core) fetchRef(ctx context.Context) (back func() error, err error) {
	if !c.o.OffloadRef || c.Ref == nil {
		return stay, nil
	}
	return learner.FetchModel(ctx, "the reference", c.Ref)
}

// fetchOptimizer brings the optimiser's moments to their device.
func (c *core) fetchOptimizer(ctx context.Context) (back func() error, err error) {
	if !c.o.OffloadOptimizer {
		return stay, nil
	}
	return c.Actor.FetchOptimizer(ctx)
}

// fetchCritic brings the moments of the critic's optimiser to their device.
func (c *core) fetchCritic(ctx context.Context) (back func() error, err error) {
	if !c.o.OffloadCritic || c.Critic == nil || c.Critic.Shared() {
		return stay, nil
	}
	return c.Critic.FetchOptimizer(ctx)
}

// fetchForUpdate brings what an update of the actor needs: the moments, and the
// reference where the loss asks it itself.
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

// offload sends all of it to the host, before the first step needs any.
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
