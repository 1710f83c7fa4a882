package learner

import (
	"context"
	"fmt"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
)

// broadcastBytes is the largest size of the weights in one message, unless one weight is larger. A message takes at least the
// time of a round trip, and a copy of the weights in memory.
const broadcastBytes = 64 << 20

// Broadcast replaces the weights of Compute on the other ranks of g by those of rank 0. All ranks of g call it with models of the
// same shapes and types. With adapters it sends only these.
func (a *Actor) Broadcast(ctx context.Context, g *dist.Group) error {
	weights := a.compute.Adapters()
	if !a.compute.HasLoRA() {
		weights = a.compute.Params()
	}
	for len(weights) > 0 {
		n, size := 0, 0
		for n < len(weights) && (n == 0 || weights[n].Tensor.DType() == weights[0].Tensor.DType()) {
			bytes := weights[n].Tensor.Numel() * weights[n].Tensor.DType().Size()
			if n > 0 && size+bytes > broadcastBytes {
				break
			}
			n, size = n+1, size+bytes
		}
		err := torch.Run(ctx, a.compute.Thread(), func(s *torch.Scope) (err error) {
			s.NoGrad(func() { err = broadcast(ctx, s, g, weights[:n]) })
			return err
		})
		if err != nil {
			return fmt.Errorf("send the weights to the workers: %w", err)
		}
		weights = weights[n:]
	}
	return nil
}

// broadcast sends weights of one type in one message.
func broadcast(ctx context.Context, s *torch.Scope, g *dist.Group, weights []model.Param) error {
	numel := 0
	for _, w := range weights {
		numel += w.Tensor.Numel()
	}
	message := s.Empty(weights[0].Tensor.DType(), numel)
	parts := make([]torch.Tensor, len(weights))
	at := 0
	for i, w := range weights {
		parts[i] = message.Narrow(0, at, w.Tensor.Numel()).View(w.Tensor.Shape()...)
		at += w.Tensor.Numel()
		if g.Rank() == 0 {
			parts[i].Copy_(w.Tensor)
		}
	}
	if err := g.Broadcast(ctx, message, 0); err != nil || g.Rank() == 0 {
		return err
	}
	for i, w := range weights {
		w.Tensor.Copy_(parts[i])
	}
	return nil
}
