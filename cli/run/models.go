package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
)

// ModelPath returns the path of the model that LookUpModel finds, or the path of
// the name itself if there is no such model.
func ModelPath(h *Host, name string) string {
	if f, err := LookUpModel(h, name); err == nil {
		return f.Path
	}
	return h.Path(name)
}

// CheckModel returns an error if FindModel does not find the model. The error names
// key, the configuration key or the flag of the model.
func CheckModel(ctx context.Context, h *Host, key, name string) error {
	if _, err := FindModel(ctx, h, name); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// DescribeModel describes the model that FindModel finds.
func DescribeModel(ctx context.Context, h *Host, name string) (*model.Description, error) {
	f, err := FindModel(ctx, h, name)
	if err != nil {
		return nil, err
	}
	d, err := model.Describe(f.Path, model.Options{FindBase: baseFinder(ctx, h, &f)})
	return d, errext.WithDefault(errext.Model, err)
}

// baseFinder returns the function that finds the base model of adapters: a model of the
// hub, or, for the adapters of a run that was moved, the base in the run folder or
// the run's model.path. Opening the adapters checks that the base has the right weights.
func baseFinder(ctx context.Context, h *Host, adapters *Found) func(name string) (string, error) {
	return func(name string) (string, error) {
		hint := "set base_model_name_or_path in its adapter_config.json"
		if adapters.Run != nil {
			hint = "link it as " + adapters.Run.Base()
			if dir := adapters.Run.Base(); model.IsFolder(dir) {
				return dir, nil
			}
			name = adapters.Config.Model.Path
		}
		f, err := FindModel(ctx, h, name)
		return f.Path, baseError(err, hint)
	}
}

// baseError adds an action to the error of a base model that was not found.
func baseError(err error, action string) error {
	hint := "if the base model was moved, put it back, or " + action
	if missing, ok := errors.AsType[missingError](err); ok {
		return errext.With(errext.Model, hint, missing)
	}
	if err != nil {
		return fmt.Errorf("%w; %s", err, hint)
	}
	return nil
}

// findModels finds the models that the configuration names, and fetches missing ones. In
// the returned configuration, model.path is the model whose weights the run loads.
func (r *runFolder) findModels(ctx context.Context, h *Host, cfg configs.Config) (configs.Config, error) {
	if r.checkpoint != nil && cfg.Model.LoRARank == 0 {
		cfg.Model.Path = r.modelPath(cfg) // a resumed run does not need the initial weights
	}
	for _, p := range []struct{ key, path string }{
		{"model.path", cfg.Model.Path}, {"model.tokenizer_path", cfg.Model.TokenizerPath}, {"ref.path", cfg.Ref.Path},
		{"critic.path", cfg.Critic.Path}, {"reward.model_path", cfg.Reward.ModelPath},
	} {
		if p.path == "" {
			continue
		}
		_, err := FindModel(ctx, h, p.path)
		if err != nil && p.key == "model.path" && r.checkpoint != nil {
			err = fmt.Errorf("the base model of the run's adapters: %w", baseError(err, "link it as "+h.Path(p.path)))
		}
		if err != nil {
			return cfg, fmt.Errorf("%s: %w", p.key, err)
		}
	}
	return cfg, nil
}

// checkModels checks that the models and programs that the configuration names
// exist, and that the reference fits the policy. It runs before servers start and
// weights load.
func (t *training) checkModels(ctx context.Context) error {
	cfg, err := t.run.findModels(ctx, t.host, t.cfg)
	if err != nil || t.mode == supervised {
		return err
	}
	if cfg.Reward.ModelPath != "" {
		d, err := DescribeModel(ctx, t.host, cfg.Reward.ModelPath)
		if err == nil {
			err = d.CheckReward()
		}
		if err != nil {
			return errext.With(errext.Model, "", fmt.Errorf("reward.model_path: %w", err))
		}
	}
	if err := CheckPrograms(t.host, cfg); err != nil {
		return err
	}
	if cfg.Ref.Path == "" || cfg.Model.Path == "" {
		return nil
	}
	policy, err := DescribeModel(ctx, t.host, cfg.Model.Path)
	if err != nil {
		return errext.With(errext.Model, "", err)
	}
	ref, err := DescribeModel(ctx, t.host, cfg.Ref.Path)
	if err != nil {
		return errext.With(errext.Model, "", fmt.Errorf("ref.path: %w", err))
	}
	switch p, r := policy.Config, ref.Config; {
	case p.VocabSize != r.VocabSize:
		err = fmt.Errorf("ref.path: the reference has %d tokens in its vocabulary, the model %d", r.VocabSize, p.VocabSize)
	case r.MaxPositionEmbeddings < cfg.Rollout.MaxContextTokens:
		err = fmt.Errorf("ref.path: the reference has %d positions, rollout.max_context_tokens is %d", r.MaxPositionEmbeddings, cfg.Rollout.MaxContextTokens)
	}
	return errext.With(errext.Model, "a reference is another state of the same model", err)
}

// OpenModel loads the model of a [model] section on its device. The functions that
// release the model and stop the device's thread are added to the parameter open.
func OpenModel(ctx context.Context, h *Host, open *Closers, m configs.Model, o model.Options) (*model.Bundle, error) {
	if _, err := FindModel(ctx, h, m.Path); err != nil {
		return nil, err
	}
	thread, dt, err := openDevice(h, open, m)
	if err != nil {
		return nil, err
	}
	o.DType = dt
	var b *model.Bundle
	err = h.during("opening the model", func() (err error) {
		b, err = openWeights(ctx, h, thread, m.Path, o)
		return err
	})
	if err != nil {
		return nil, err
	}
	open.AddFunc(b.Close)
	return b, setTemplate(h, b, m)
}

// openWeights loads the model that FindModel finds.
func openWeights(ctx context.Context, h *Host, t *torch.Thread, name string, o model.Options) (*model.Bundle, error) {
	f, err := FindModel(ctx, h, name)
	if err != nil {
		return nil, err
	}
	o.FindBase = baseFinder(ctx, h, &f)
	b, err := model.Open(ctx, t, f.Path, o)
	return b, errext.WithDefault(errext.Model, err)
}
