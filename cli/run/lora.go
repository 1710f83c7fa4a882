package run

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
)

// openWeights opens the trained weights in float32. With model.lora_rank it
// opens frozen weights in the compute dtype and adds adapters. The model is deferred. Checkpoints then
// contain only the adapters.
func (t *training) openWeights(ctx context.Context) (*model.Bundle, error) {
	cfg := t.cfg
	if cfg.Model.LoRARank == 0 {
		return t.openMerged(ctx, t.run.modelPath(cfg), torch.Float32)
	}
	b, err := t.openMerged(ctx, cfg.Model.Path, t.compute)
	if err != nil {
		return nil, err
	}
	if err := t.addAdapters(ctx, b); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// addAdapters adds the adapters, loaded from the checkpoint if there is one.
func (t *training) addAdapters(ctx context.Context, b *model.Bundle) error {
	base, err := t.baseFolder(ctx, b)
	if err != nil {
		return err
	}
	m := t.cfg.Model
	if base, err = filepath.Abs(base); err == nil {
		err = b.Model.AddLoRA(ctx, model.LoRA{Rank: m.LoRARank, Alpha: m.LoRAAlpha, Dropout: m.LoRADropout, Targets: m.TargetModules, Base: base}, t.cfg.Trainer.Seed)
	}
	if err != nil || t.run.checkpoint == nil {
		return errext.With(errext.Model, "", err)
	}
	err = b.Model.LoadAdapters(ctx, t.run.checkpoint.File(rundir.ActorFolder))
	return errext.With(errext.Model, "model.path must hold the weights that the run started with", err)
}

// baseFolder returns the Hugging Face folder of the frozen weights, which PEFT
// needs as the base of adapters. Weights of a GGUF file and weights
// with merged adapters are written to the run folder once.
func (t *training) baseFolder(ctx context.Context, b *model.Bundle) (string, error) {
	path := ModelPath(t.host, t.cfg.Model.Path)
	if model.IsFolder(path) {
		return path, nil
	}
	dir := t.run.Base()
	if t.run.checkpoint != nil && model.IsFolder(dir) || !t.host.Ranks.First() { // rank 0 writes it
		return dir, nil
	}
	if err := t.host.RemoveAll(dir); err != nil { // the folder may be left over from a run without a checkpoint
		return "", errext.With(errext.Disk, "", err)
	}
	t.host.Log.Info("writing the frozen weights as a Hugging Face folder, the base that PEFT needs for the adapters", "folder", dir)
	if err := t.host.MakeWhole(dir, func(tmp string) error { return b.Save(ctx, tmp, t.compute) }); err != nil {
		return "", errext.With(errext.Disk, "make room or set trainer.output_dir", fmt.Errorf("write the base of the adapters: %w", err))
	}
	return dir, nil
}

// openMerged opens a deferred model and merges the adapters in the model's folder, if any, into
// the weights, so that training builds on them.
func (t *training) openMerged(ctx context.Context, path string, dt torch.DType) (*model.Bundle, error) {
	b, err := openWeights(ctx, t.host, t.thread, path, model.Options{DType: dt, Deferred: true})
	if err != nil {
		return nil, err
	}
	if !b.Model.HasLoRA() {
		return b, nil
	}
	t.host.Log.Info("the adapters of the model are merged into its weights", "path", path, "dtype", dt)
	if err := b.Model.Merge(ctx); err != nil {
		b.Close()
		return nil, errext.With(errext.Native, "", err)
	}
	return b, nil
}

// frozenReference returns the reference of the KL on the policy's frozen weights.
// Without a warm start the reference has no adapters. Otherwise it has a copy of the
// adapters at the end of the warm start.
func (t *training) frozenReference(ctx context.Context) (*model.Model, error) {
	if !t.freezesReference() {
		return t.bundle.Model.Base(), nil
	}
	m, err := t.bundle.Model.Frozen(ctx)
	if err != nil {
		return nil, errext.With(errext.Native, "", err)
	}
	t.open.AddFunc(m.Close)
	if t.run.state != nil && t.run.state.WarmStarted { // otherwise the trainer copies the adapters after the warm start
		if err := m.LoadAdapters(ctx, t.run.Reference()); err != nil {
			return nil, errext.With(errext.Disk, "", err)
		}
	}
	return m, nil
}

// warnOffloadOnCPU warns if an offload setting has no effect.
func (t *training) warnOffloadOnCPU() {
	set := t.cfg.Actor.OffloadOptimizer || t.cfg.Critic.OffloadOptimizer || t.cfg.Ref.OffloadParams || t.cfg.Reward.ModelOffloadParams
	if set && !t.thread.Device().CUDA {
		t.host.Log.Warn("actor.offload_optimizer, critic.offload_optimizer, ref.offload_params and reward.model_offload_params have no effect on the CPU: all tensors are in host memory")
	}
}
