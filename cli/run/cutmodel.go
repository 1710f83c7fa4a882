package run

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
)

// lead calls f, which plays, on rank 0. The other ranks, which hold parts of the model, run the steps of its engine meanwhile. If f fails,
// all ranks have an error. An interrupt ends f; the other ranks end after it.
func (p *player) lead(ctx context.Context, f func() error) error {
	whole := context.WithoutCancel(ctx)
	return p.host.Ranks.Each(whole, func() (err error) {
		switch {
		case p.sampler == nil: // an endpoint or a person replies
			return f()
		case !p.host.Ranks.First():
			return p.sampler.Backend.Follow(whole)
		}
		if err := p.sampler.Backend.Lead(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.sampler.Backend.Dismiss()) }()
		return f()
	})
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
