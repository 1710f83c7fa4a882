package model

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/agent/llm/gguf"
	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/torch"
)

// Bundle is a model with its tokenizer, chat template and generation settings.
type Bundle struct {
	Model           *Model
	Tokenizer       *tokenizer.Tokenizer
	TokenizerConfig tokenizer.Config // special tokens and chat template
	Generation      GenerationConfig
	Path            string // that it was opened from; "" for a new model
	// TokenizerErr is the reason why Tokenizer is nil (Options.TokenizerOptional).
	TokenizerErr error
}

// Options configure Open.
type Options struct {
	DType torch.DType // of the weights; the zero value is float32
	// Classifier accepts only a reward model, a sequence classifier with one
	// label. Without it Open accepts only a language model.
	Classifier bool
	// TokenizerOptional accepts a model whose tokenizer is missing or invalid,
	// for callers that pass ids.
	TokenizerOptional bool

	adapted int // number of adapter folders between the caller's path and this one
}

// ChatTemplate returns the source of the chat template, "" if the model has none.
func (b *Bundle) ChatTemplate() string { return b.TokenizerConfig.ChatTemplate }

// EOSTokenIDs returns the tokens that end a reply: eos_token_id of
// generation_config.json (or, without one, of config.json) and the tokenizer's
// EOS, which in chat models ends a turn.
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

// Open loads a Hugging Face folder, a GGUF file, a folder with one .gguf file
// and no config.json, or a folder of PEFT adapters, which gives the base model
// with the adapters on it.
func Open(ctx context.Context, t *torch.Thread, path string, o Options) (*Bundle, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open model: %w", err)
	}
	open := openGGUF
	if info.IsDir() {
		open = openFolder
	}
	b, err := open(ctx, t, path, o)
	if err != nil {
		return nil, fmt.Errorf("open model %s: %w", path, err)
	}
	if b.Tokenizer != nil && b.Tokenizer.Size() > b.Model.Config.VocabSize {
		b.Close()
		return nil, fmt.Errorf("open model %s: the tokenizer has %d tokens, the model only %d", path, b.Tokenizer.Size(), b.Model.Config.VocabSize)
	}
	b.Path = path
	return b, nil
}

// IsFolder reports whether path is a Hugging Face folder: it has a config.json.
func IsFolder(path string) bool {
	_, err := os.Stat(filepath.Join(path, "config.json"))
	return err == nil
}

func openFolder(ctx context.Context, t *torch.Thread, dir string, o Options) (*Bundle, error) {
	if _, err := os.Stat(filepath.Join(dir, "config.json")); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, adapterConfigFile)); err == nil {
			return openAdapted(ctx, t, dir, o)
		}
		file, err := onlyGGUF(dir)
		if err != nil {
			return nil, err
		}
		return openGGUF(ctx, t, file, o)
	}
	b := &Bundle{}
	// Small files first, to report their faults before gigabytes are read.
	c, err := readConfig(dir)
	if err == nil {
		err = c.checkKind(o.Classifier)
	}
	if err != nil {
		return nil, err
	}
	if err := b.readTokenizer(o, func() error { return b.loadTokenizer(dir) }); err != nil {
		return nil, err
	}
	generation, err := readFile(dir, "generation_config.json")
	switch {
	case err == nil:
		if b.Generation, err = ParseGenerationConfig(generation); err != nil {
			return nil, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if b.Model, err = loadFolder(ctx, t, dir, c, o.DType); err != nil {
		return nil, err
	}
	if generation == nil {
		b.Generation = generationFromConfig(b.Model.Config)
	}
	return b, nil
}

// readTokenizer calls read. If the tokenizer is optional, it keeps the error in
// b.TokenizerErr and returns nil.
func (b *Bundle) readTokenizer(o Options, read func() error) error {
	b.TokenizerErr = read()
	if b.TokenizerErr == nil || !o.TokenizerOptional {
		return b.TokenizerErr
	}
	b.Tokenizer, b.TokenizerConfig = nil, tokenizer.Config{}
	return nil
}

// loadTokenizer reads the tokenizer of a Hugging Face folder.
func (b *Bundle) loadTokenizer(dir string) (err error) {
	if b.Tokenizer, err = tokenizer.Load(dir); err != nil {
		return err
	}
	b.TokenizerConfig, err = tokenizer.LoadConfig(dir)
	return err
}

// onlyGGUF returns the path of the only GGUF file in a folder.
func onlyGGUF(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(escapeGlob(dir), "*.gguf"))
	if err != nil {
		return "", err
	}
	switch len(files) {
	case 1:
		return files[0], nil
	case 0:
		return "", errors.New("the folder has neither a config.json nor a .gguf file")
	}
	return "", fmt.Errorf("the folder has no config.json and %d .gguf files: pass the path of one of them", len(files))
}

func escapeGlob(s string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`).Replace(s)
}

func openGGUF(ctx context.Context, t *torch.Thread, path string, o Options) (*Bundle, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c, err := ggufConfig(f)
	if err == nil {
		err = c.checkKind(o.Classifier)
	}
	if err != nil {
		return nil, err
	}
	b := &Bundle{Generation: generationFromConfig(c)}
	if err := b.readTokenizer(o, func() (err error) {
		b.Tokenizer, b.TokenizerConfig, err = f.Metadata().Tokenizer()
		return err
	}); err != nil {
		return nil, err
	}
	b.TokenizerConfig.ModelMaxLength = c.MaxPositionEmbeddings
	src, err := newGGUFSource(f, c)
	if err != nil {
		return nil, err
	}
	b.Model, err = load(ctx, t, c, o.DType, src)
	return b, err
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

// SaveAdapters writes a folder that PEFT opens: the adapters, and the files
// beside the weights.
func (b *Bundle) SaveAdapters(ctx context.Context, dir string) error {
	if err := b.saveRest(dir); err != nil {
		return err
	}
	return b.Model.SaveAdapters(ctx, dir)
}

// saveRest writes the files beside the weights.
func (b *Bundle) saveRest(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("save model: %w", err)
	}
	tc, err := b.TokenizerConfig.JSON()
	if err != nil {
		return fmt.Errorf("save model: %w", err)
	}
	var generation bytes.Buffer
	if err := b.Generation.WriteJSON(&generation); err != nil {
		return fmt.Errorf("save model: %w", err)
	}
	for _, f := range []struct {
		name string
		data []byte
	}{
		{"tokenizer.json", b.Tokenizer.RawJSON()},
		{"tokenizer_config.json", tc},
		{"generation_config.json", generation.Bytes()},
	} {
		if err := writeFile(filepath.Join(dir, f.name), f.data); err != nil {
			return err
		}
	}
	return nil
}
