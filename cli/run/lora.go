package run

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
)

// openWeights loads what is trained: all the weights in float32, or with
// model.lora_rank the frozen ones in the type of the computation and adapters
// on them. A checkpoint holds the weights in the first case, the adapters in
// the second.
func (t *training) openWeights(ctx context.Context) (*model.Bundle, error) {
	cfg := t.cfg
	if cfg.Model.LoRARank == 0 {
		return t.openMerged(ctx, t.run.modelPath(t.host, cfg), torch.Float32)
	}
	b, err := t.openMerged(ctx, ModelPath(t.host, cfg.Model.Path), t.compute)
	if err != nil {
		return nil, err
	}
	base, err := t.baseFolder(ctx, b)
	if err != nil {
		b.Close()
		return nil, err
	}
	if base, err = filepath.Abs(base); err == nil {
		err = b.Model.AddLoRA(ctx, loraOf(cfg.Model, base), cfg.Trainer.Seed)
	}
	if err != nil {
		b.Close()
		return nil, errext.With(errext.Model, "", err)
	}
	if t.run.checkpoint == nil {
		return b, nil
	}
	if err := b.Model.LoadAdapters(ctx, t.run.checkpoint.File(rundir.ActorFolder)); err != nil {
		b.Close()
		return nil, errext.With(errext.Model, "the weights in model.path must be those that the run began with", err)
	}
	return b, nil
}

// baseFolder is a Hugging Face folder with the frozen weights, which
// adapter_config.json names: PEFT opens no other base. Weights that come from a
// GGUF file, or from adapters merged into others, are written into the run's
// folder once.
func (t *training) baseFolder(ctx context.Context, b *model.Bundle) (string, error) {
	path := ModelPath(t.host, t.cfg.Model.Path)
	if model.IsFolder(path) {
		return path, nil
	}
	dir := t.run.folder.Base()
	if t.run.checkpoint != nil && model.IsFolder(dir) {
		return dir, nil
	}
	if err := t.host.RemoveAll(dir); err != nil { // of a run that ended before its first checkpoint, maybe on another model
		return "", errext.With(errext.Disk, "", err)
	}
	t.host.Log.Info("writing the frozen weights as a Hugging Face folder, the base that PEFT needs for the adapters", "folder", dir)
	if err := t.host.MakeWhole(dir, func(tmp string) error { return b.Save(ctx, tmp, t.compute) }); err != nil {
		return "", errext.With(errext.Disk, "make room or set trainer.output_dir", fmt.Errorf("the base of the adapters: %w", err))
	}
	return dir, nil
}

// openMerged opens a model and merges adapters that its folder holds: training
// adds to what they do.
func (t *training) openMerged(ctx context.Context, path string, dt torch.DType) (*model.Bundle, error) {
	b, err := model.Open(ctx, t.thread, path, model.Options{DType: dt})
	if err != nil {
		return nil, errext.With(errext.Model, "", err)
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

// loraOf maps the adapters' keys; base is where the frozen weights are.
func loraOf(m configs.Model, base string) model.LoRA {
	return model.LoRA{Rank: m.LoRARank, Alpha: m.LoRAAlpha, Dropout: m.LoRADropout, Targets: m.TargetModules, Base: base}
}

// frozenReference is the reference of the KL loss on the policy's own frozen
// weights: these alone, or, after a warm start, with a copy of the adapters as
// they were when it ended.
func (t *training) frozenReference(ctx context.Context) (*model.Model, error) {
	if !t.freezesReference() {
		return t.bundle.Model.Base(), nil
	}
	m, err := t.bundle.Model.Frozen(ctx)
	if err != nil {
		return nil, errext.With(errext.Native, "", err)
	}
	t.open.AddFunc(m.Close)
	if t.run.state != nil && t.run.state.WarmStarted { // else the trainer copies them
		if err := m.LoadAdapters(ctx, t.run.folder.Reference()); err != nil {
			return nil, errext.With(errext.Disk, "", err)
		}
	}
	return m, nil
}

// noteOffload says where a setting has no effect: the host's memory is all that
// a CPU has.
func (t *training) noteOffload() {
	set := t.cfg.Actor.OffloadOptimizer || t.cfg.Critic.OffloadOptimizer || t.cfg.Ref.OffloadParams || t.cfg.Reward.ModelOffloadParams
	if set && !t.thread.Device().CUDA {
		t.host.Log.Warn("actor.offload_optimizer, critic.offload_optimizer, ref.offload_params and reward.model_offload_params do nothing on the CPU: everything is in host memory already")
	}
}
