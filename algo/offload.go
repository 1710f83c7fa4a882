package algo

import (
	"context"

	"github.com/openmanus/openmanus/algo/kl"
	"github.com/openmanus/openmanus/algo/learner"
)

// Offloading keeps tensors in host memory while no phase uses them, to leave the
// device's memory to the KV cache and the activations: the reference, except while it
// computes log-probs, and the optimisers' moments, except during an update. On a CPU it
// does nothing.

// withRef calls f while the reference is on its device.
func (c *core) withRef(ctx context.Context, f func() error) error {
	if !c.o.OffloadRef || c.Ref == nil {
		return f()
	}
	return learner.WithModel(ctx, "the reference", c.Ref, f)
}

// withOptimizer calls f while the moments of the actor's optimiser are on their device.
func (c *core) withOptimizer(ctx context.Context, f func() error) error {
	if !c.o.OffloadOptimizer {
		return f()
	}
	return c.Actor.WithOptimizer(ctx, f)
}

// withCritic calls f while the moments of a separate critic's optimiser are on their device.
func (c *core) withCritic(ctx context.Context, f func() error) error {
	if !c.o.OffloadCritic || c.Critic == nil || c.Critic.Shared() {
		return f()
	}
	return c.Critic.WithOptimizer(ctx, f)
}

// withUpdate calls f while the tensors of an actor update are on their device:
// the moments, and the reference if the loss uses the reference.
func (c *core) withUpdate(ctx context.Context, f func() error) error {
	update := func() error { return c.withOptimizer(ctx, f) }
	if c.o.Policy.KLCoef != 0 && c.o.Policy.KLType == kl.Full {
		return c.withRef(ctx, update)
	}
	return update()
}

// offload moves all offloaded tensors to the host before the first step.
func (c *core) offload(ctx context.Context) error {
	for _, with := range []func(context.Context, func() error) error{c.withRef, c.withOptimizer, c.withCritic} {
		if err := with(ctx, func() error { return nil }); err != nil {
			return err
		}
	}
	return nil
}
