package learner

import (
	"context"
	"fmt"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/torch"
)

// host is the device that offloaded tensors wait on.
var host = torch.Device{}

// FetchModel moves the weights of m from the host to its device. back moves them
// to the host again. name is the subject of error messages.
func FetchModel(ctx context.Context, name string, m *model.Model) (back func() error, err error) {
	return fetch(ctx, m.Thread(), name, m.To)
}

// FetchOptimizer moves the moments of the decoder's optimiser from the host to
// its device. back moves them to the host again.
func (a *Actor) FetchOptimizer(ctx context.Context) (back func() error, err error) {
	return fetch(ctx, a.master.Thread(), "the optimiser's moments", a.adamw.To)
}

// fetch moves tensors to the thread's device and returns a function that moves them back to the host. Errors name the
// tensors as what.
func fetch(ctx context.Context, thread *torch.Thread, what string, move func(*torch.Scope, torch.Device)) (func() error, error) {
	moved := func(ctx context.Context, d torch.Device) error {
		err := torch.Run(ctx, thread, func(s *torch.Scope) error {
			move(s, d)
			return nil
		})
		if err != nil {
			return fmt.Errorf("move %s to %s: %w", what, d, err)
		}
		return nil
	}
	if err := moved(ctx, thread.Device()); err != nil {
		return nil, err
	}
	return func() error { return moved(context.WithoutCancel(ctx), host) }, nil
}
