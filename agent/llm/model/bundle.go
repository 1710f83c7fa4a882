package model

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
)

// Bundle is a model with its tokenizer, chat template and generation settings.
type Bundle struct {
	Model           *Model
	Tokenizer       *tokenizer.Tokenizer
	TokenizerConfig tokenizer.Config // special tokens and chat template
	Generation      GenerationConfig
	Path            string // path that was passed to Open; "" for a new model
	// TokenizerErr is the reason why Tokenizer is nil (Options.TokenizerOptional).
	TokenizerErr error
}

// Options configure Open.
type Options struct {
	DType torch.DType // dtype of the weights; the zero value is float32
	// Classifier makes Open accept only a reward model, which is a sequence classifier
	// with one label. Without Classifier, Open accepts only a language model.
	Classifier bool
	// TokenizerOptional accepts a model whose tokenizer is missing or invalid,
	// for callers that pass ids.
	TokenizerOptional bool
	// Ranks makes the model tensor parallel over the ranks of a group. Each rank opens the same model, reads only its part, and
	// can only generate, at the same time as the others. A nil group means one rank, which has the whole model.
	Ranks *dist.Group
	// Deferred opens the files and leaves the weights in them until Model.Load or Model.Shard, which reads them unit by unit. Until then
	// adapters can be made and merged, and weights saved, hashed and copied. It cannot be combined with Ranks.
	Deferred bool
	// FindBase finds the base model of adapters whose adapter_config.json names no existing path, such
	// as a model of the hub. nil: such a base is an error.
	FindBase func(name string) (path string, err error)
}

// ChatTemplate returns the source of the chat template, "" if the model has none.
func (b *Bundle) ChatTemplate() string { return b.TokenizerConfig.ChatTemplate }

// EOSTokenIDs returns the tokens that end a reply: eos_token_id of
// generation_config.json (or of config.json if the first file has none) and the
// tokenizer's EOS, which in chat models ends a turn.
func (b *Bundle) EOSTokenIDs() []int32 {
	list := slices.Clone(b.Generation.EOSTokenIDs)
	if len(list) == 0 && b.Model != nil { // nil: only the tokenizer was opened
		list = slices.Clone(b.Model.Config.EOSTokenIDs)
	}
	if id, ok := b.Tokenizer.TokenToID(b.TokenizerConfig.EOS); ok && !slices.Contains(list, id) {
		list = append(list, id)
	}
	return list
}

// Close frees the weights.
func (b *Bundle) Close() { b.Model.Close() }

// Open loads a Hugging Face folder, a GGUF file, or a folder with one .gguf
// file and no config.json. For a folder of PEFT adapters it loads the base
// model with the adapters.
func Open(ctx context.Context, t *torch.Thread, path string, o Options) (*Bundle, error) {
	b, err := open(ctx, t, path, o)
	if err != nil {
		return nil, fmt.Errorf("open model %s: %w", path, err)
	}
	return b, nil
}

func open(ctx context.Context, t *torch.Thread, path string, o Options) (*Bundle, error) {
	if o.Deferred && o.Ranks != nil {
		return nil, errors.New("the parts of a tensor-parallel model cannot be deferred")
	}
	base, chain, err := resolve(path, o.FindBase)
	if err != nil {
		return nil, err
	}
	if o.Classifier && len(chain) > 0 {
		return nil, fmt.Errorf("the path is a folder of adapters: %w", ErrNoReward)
	}
	f, err := openFiles(base, o.TokenizerOptional, func(c *Config) error { return c.checkKind(o.Classifier) })
	if err != nil {
		return nil, err
	}
	b := &f.Bundle
	if b.Model, err = deferLoad(ctx, t, f.config, o.DType, f.src, o.Ranks); err != nil {
		return nil, errors.Join(err, f.close())
	}
	b.Model.deferred.close = append(b.Model.deferred.close, func() { _ = f.close() })
	if !o.Deferred {
		if b.Model, err = loaded(ctx, b.Model, nil); err != nil {
			return nil, err
		}
	}
	b.Path = path
	for _, a := range slices.Backward(chain) {
		if err := b.adapt(ctx, a, o.TokenizerOptional); err != nil {
			b.Close()
			return nil, err
		}
	}
	if b.Tokenizer != nil && b.Tokenizer.Size() > f.config.VocabSize {
		b.Close()
		return nil, fmt.Errorf("the tokenizer has %d tokens, the model only %d", b.Tokenizer.Size(), f.config.VocabSize)
	}
	return b, nil
}

// Save writes a folder that transformers opens: config.json,
// model.safetensors with adapters merged, tokenizer.json,
// tokenizer_config.json with the chat template, generation_config.json. It
// creates the folder if needed.
func (b *Bundle) Save(ctx context.Context, dir string, dt torch.DType) error {
	if err := b.saveRest(dir); err != nil {
		return err
	}
	return b.Model.SaveWeights(ctx, dir, dt)
}

// SaveAdapters writes a folder that PEFT opens: the adapters, the tokenizer
// and the settings files.
func (b *Bundle) SaveAdapters(ctx context.Context, dir string) error {
	if err := b.saveRest(dir); err != nil {
		return err
	}
	return b.Model.SaveAdapters(ctx, dir)
}

// saveRest writes the tokenizer and the settings files, which are stored next to the weights.
func (b *Bundle) saveRest(dir string) error {
	if !b.Model.writes() {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("save model: %w", err)
	}
	tc, err := b.TokenizerConfig.JSON()
	if err != nil {
		return fmt.Errorf("save model: %w", err)
	}
	generation, err := b.Generation.JSON()
	if err != nil {
		return fmt.Errorf("save model: %w", err)
	}
	return errors.Join(
		writeFile(filepath.Join(dir, "tokenizer.json"), b.Tokenizer.RawJSON()),
		writeFile(filepath.Join(dir, "tokenizer_config.json"), tc),
		writeFile(filepath.Join(dir, "generation_config.json"), generation),
	)
}
