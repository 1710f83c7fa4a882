package run

import (
	"cmp"
	"context"
	"fmt"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
)

// OpenModel loads the model of a [model] section on its device. Closing open
// releases both.
func OpenModel(ctx context.Context, h *Host, open *Closers, m configs.Model, o model.Options) (*model.Bundle, error) {
	var err error
	if o.DType, err = ParseDtype(m.ComputeDtype); err != nil {
		return nil, err
	}
	thread, err := OpenThread(h, m.Device)
	if err != nil {
		return nil, err
	}
	open.AddFunc(thread.Close)
	b, err := model.Open(ctx, thread, ModelPath(h, m.Path), o)
	if err != nil {
		return nil, errext.With(errext.Model, "", err)
	}
	open.AddFunc(b.Close)
	return b, nil
}

// ContextLimit returns rollout.max_context_tokens, or the model's positions if
// it is 0.
func ContextLimit(b *model.Bundle, cfg configs.Config) (int, error) {
	limit := b.Model.Config.MaxPositionEmbeddings
	if cfg.Rollout.MaxContextTokens > limit {
		return 0, errext.With(errext.Input, fmt.Sprintf("set --max-context-tokens to %d or less", limit), fmt.Errorf("the model has %d positions", limit))
	}
	return cmp.Or(cfg.Rollout.MaxContextTokens, limit), nil
}
