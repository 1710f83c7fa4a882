package run

import (
	"fmt"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/internal/errext"
)

// checkModels looks at what the configuration names before anything is started
// or loaded: a wrong path, a reference that does not fit or a score function
// whose program is not there would else be found minutes later.
func (t *training) checkModels() error {
	cfg := t.cfg
	if t.run.checkpoint != nil && cfg.Model.LoRARank == 0 {
		cfg.Model.Path = t.run.modelPath(t.host, cfg) // the first weights need not be there any more
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
	if cfg.Reward.ModelPath != "" && t.mode == reinforced {
		d, err := model.Describe(ModelPath(t.host, cfg.Reward.ModelPath))
		if err == nil {
			err = d.CheckReward()
		}
		if err != nil {
			return errext.With(errext.Model, "", fmt.Errorf("reward.model_path: %w", err))
		}
	}
	if t.mode == reinforced {
		if err := CheckPrograms(t.host, cfg.Reward); err != nil {
			return err
		}
	}
	if cfg.Ref.Path == "" || cfg.Model.Path == "" || t.mode == supervised {
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
