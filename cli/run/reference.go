package run

import (
	"cmp"
	"context"
	"fmt"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/internal/errext"
)

// reference opens the reference policy of the KL, or returns nil if the run has
// none. loadReference loads it.
func (t *training) reference(ctx context.Context) (*model.Model, error) {
	if !t.cfg.UsesReference() || t.mode == supervised || !t.host.Ranks.Trains() {
		return nil, nil
	}
	path, frozen := cmp.Or(t.cfg.Ref.Path, t.cfg.Model.Path), t.freezesReference()
	switch {
	case t.cfg.Model.LoRARank > 0 && t.cfg.Ref.Path == "":
		return t.frozenReference(ctx)
	case frozen && t.run.state != nil && t.run.state.WarmStarted:
		path = t.run.Reference()
	case frozen, t.cfg.Ref.Path == "" && t.run.checkpoint == nil: // the trainer replaces the copy after a warm start
		m, err := t.bundle.Model.Deferred(t.compute)
		if err != nil {
			return nil, errext.With(errext.Native, "", err)
		}
		t.open.AddFunc(m.Close)
		return m, nil
	}
	b, err := openWeights(ctx, t.host, t.thread, path, model.Options{DType: t.compute, Deferred: true})
	if err != nil {
		return nil, errext.With(errext.Model, "", fmt.Errorf("reference: %w", err))
	}
	t.open.AddFunc(b.Close)
	return b.Model, nil
}

// copiesReference reports whether the reference is a copy of the policy, so that loadReference is a collective if the policy's weights are
// sharded. It is the same on all ranks.
func (t *training) copiesReference() bool {
	if !t.cfg.UsesReference() || t.mode == supervised || t.cfg.Ref.Path != "" || t.cfg.Model.LoRARank > 0 {
		return false
	}
	if t.freezesReference() {
		return t.run.state == nil || !t.run.state.WarmStarted
	}
	return t.run.checkpoint == nil
}

// loadReference loads a reference and shards its weights. A reference on the policy's frozen weights is loaded already.
func (t *training) loadReference(ctx context.Context, ref *model.Model) error {
	switch {
	case ref == nil, t.cfg.Model.LoRARank > 0 && t.cfg.Ref.Path == "":
		return nil
	case ref.HasLoRA():
		return loadError(ref.Load(ctx))
	}
	return t.load(ctx, ref, true)
}

// freezesReference reports whether the reference of the KL is a copy of the
// model before the first step, instead of weights in a folder.
func (t *training) freezesReference() bool {
	return t.mode == reinforced && t.cfg.UsesReference() && t.cfg.Ref.Path == "" && (t.cfg.SFT.Epochs > 0 || t.cfg.Model.Fresh.Layers > 0)
}
