package run

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
)

// hubID matches the name of a model on the Hugging Face hub, such as "Qwen/Qwen2.5-3B".
var hubID = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$`)

// ModelPath returns the path of the model that FindModel finds, or the path of
// the name itself if there is no such model. It does not download models.
func ModelPath(h *Host, name string) string {
	if f, err := findModel(h, name); err == nil {
		return f.Path
	}
	return h.Path(name)
}

// hubCache returns the folder of the Hugging Face cache.
func hubCache(h *Host) string {
	cache := cmp.Or(h.Getenv("XDG_CACHE_HOME"), filepath.Join(h.Getenv("HOME"), ".cache"))
	home := cmp.Or(h.Getenv("HF_HOME"), filepath.Join(cache, "huggingface"))
	return cmp.Or(h.Getenv("HF_HUB_CACHE"), filepath.Join(home, "hub"))
}

// hubCopy returns the folder of a hub model's revision in the cache, or "" if the
// cache lacks it. The revision is a branch, a tag or a commit; "" is main.
func hubCopy(h *Host, id, revision string) string {
	revision = cmp.Or(revision, "main")
	repository := filepath.Join(hubCache(h), "models--"+strings.ReplaceAll(id, "/", "--"))
	const longest = 1 << 10
	commit := revision
	if text, err := h.ReadFile(filepath.Join(repository, "refs", revision), longest); err == nil {
		commit = strings.TrimSpace(string(text))
	}
	dir := filepath.Join(repository, "snapshots", filepath.Base(commit))
	if _, err := h.Stat(filepath.Join(dir, "config.json")); err != nil {
		return ""
	}
	return h.Path(dir)
}

// modelHint returns the hint for the error that no model has the given name.
func modelHint(h *Host, name string) string {
	const hint = "give the path of a Hugging Face folder or of a .gguf file, or a run"
	if !hubID.MatchString(name) {
		return hint
	}
	return hint + "; a model of the hub is read from the cache " + hubCache(h) + ", where `hf download " + name + "` puts it"
}

// CheckModel returns an error if FindModel does not find the model. The error names
// key, the configuration key or the flag of the model.
func CheckModel(h *Host, key, name string) error {
	if _, err := findModel(h, name); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// checkModels checks that the models and programs that the configuration names
// exist, and that the reference fits the policy. It runs before servers start and
// weights load.
func (t *training) checkModels() error {
	cfg := t.cfg
	if t.run.checkpoint != nil && cfg.Model.LoRARank == 0 {
		cfg.Model.Path = t.run.modelPath(t.host, cfg) // a resumed run does not need the initial weights
	}
	for _, p := range []struct{ key, path string }{
		{"model.path", cfg.Model.Path}, {"model.tokenizer_path", cfg.Model.TokenizerPath}, {"ref.path", cfg.Ref.Path},
		{"critic.path", cfg.Critic.Path}, {"reward.model_path", cfg.Reward.ModelPath},
	} {
		if p.path == "" {
			continue
		}
		if err := CheckModel(t.host, p.key, p.path); err != nil {
			return err
		}
	}
	if t.mode == supervised {
		return nil
	}
	if cfg.Reward.ModelPath != "" {
		d, err := model.Describe(ModelPath(t.host, cfg.Reward.ModelPath))
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
	policy, err := model.Describe(ModelPath(t.host, cfg.Model.Path))
	if err != nil {
		return errext.With(errext.Model, "", err)
	}
	ref, err := model.Describe(ModelPath(t.host, cfg.Ref.Path))
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
	thread, dt, err := openDevice(h, open, m)
	if err != nil {
		return nil, err
	}
	o.DType = dt
	var b *model.Bundle
	err = h.during("opening the model", func() (err error) {
		b, err = model.Open(ctx, thread, ModelPath(h, m.Path), o)
		return err
	})
	if err != nil {
		return nil, errext.With(errext.Model, "", err)
	}
	open.AddFunc(b.Close)
	return b, nil
}
