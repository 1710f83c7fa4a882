package learner

import (
	"context"
	"errors"
	"fmt"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/torch"
)

// WithModel calls f while the offloaded weights of m are on their device. Error
// messages call these weights by the given name.
func WithModel(ctx context.Context, name string, m *model.Model, f func() error) error {
	return fetched(ctx, m.Thread(), name, m.To, f)
}

// WithOptimizer calls f while the offloaded moments of the decoder's optimiser are on
// their device.
func (a *Actor) WithOptimizer(ctx context.Context, f func() error) error {
	return fetched(ctx, a.master.Thread(), "the optimiser's moments", a.adamw.To, f)
}

// fetched moves tensors from the host to the thread's device, calls f, and moves them
// back, also after an error of f.
func fetched(ctx context.Context, thread *torch.Thread, name string, move func(*torch.Scope, torch.Device), f func() error) error {
	moveTo := func(ctx context.Context, d torch.Device) error {
		err := torch.Run(ctx, thread, func(s *torch.Scope) error {
			move(s, d)
			return nil
		})
		if err != nil {
			return fmt.Errorf("move %s to %s: %w", name, d, err)
		}
		return nil
	}
	if err := moveTo(ctx, thread.Device()); err != nil {
		return err
	}
	return errors.Join(f(), moveTo(context.WithoutCancel(ctx), torch.Device{}))
}
