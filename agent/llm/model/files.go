package model

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/openmanus/openmanus/agent/llm/gguf"
	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/torch/safetensors"
)

// adapterFolder is a folder of PEFT adapters.
type adapterFolder struct {
	dir  string
	lora LoRA
}

// maxAdapted bounds the length of a chain of adapter folders.
const maxAdapted = 8

// resolve returns the path of the weights and the chain of adapter folders that leads
// to them, the outermost first. The path is a Hugging Face folder or a GGUF file. See
// Options.FindBase for findBase.
func resolve(path string, findBase func(string) (string, error)) (base string, chain []adapterFolder, err error) {
	for {
		info, err := os.Stat(path)
		if err != nil {
			return "", nil, err
		}
		if !info.IsDir() || exists(path, "config.json") {
			return path, chain, nil
		}
		if !exists(path, adapterConfigFile) {
			path, err = onlyGGUF(path)
			return path, chain, err
		}
		if len(chain) == maxAdapted {
			return "", nil, fmt.Errorf("%s: the chain of adapter folders is longer than %d", adapterConfigFile, maxAdapted)
		}
		lora, err := readLoRA(path)
		if err != nil {
			return "", nil, err
		}
		chain = append(chain, adapterFolder{path, lora})
		if path, err = basePath(path, lora.Base, findBase); err != nil {
			return "", nil, err
		}
	}
}

func exists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return !errors.Is(err, fs.ErrNotExist)
}

// IsFolder reports whether path is a Hugging Face folder: it has a config.json.
func IsFolder(path string) bool {
	_, err := os.Stat(filepath.Join(path, "config.json"))
	return err == nil
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

// files has the opened files of a model. The Model of its Bundle is nil.
type files struct {
	Bundle
	config Config
	format string // "safetensors" or "gguf"
	src    source
	close  func() error
}

// openFiles reads a Hugging Face folder or a GGUF file except for the weights,
// which it opens last, so that faults of small files are reported before
// gigabytes are read. It passes the configuration to the function check, if not
// nil, before it reads anything else.
func openFiles(path string, tokenizerOptional bool, check func(*Config) error) (*files, error) {
	if IsFolder(path) {
		return openFolder(path, tokenizerOptional, check)
	}
	g, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	f := &files{format: "gguf", close: g.Close}
	if f.config, err = ggufConfig(g); err == nil && check != nil {
		err = check(&f.config)
	}
	if err == nil {
		f.Generation = generationFromConfig(f.config)
		err = f.readTokenizer(tokenizerOptional, func() (err error) {
			f.Tokenizer, f.TokenizerConfig, err = g.Metadata().Tokenizer()
			return err
		})
		f.TokenizerConfig.ModelMaxLength = f.config.MaxPositionEmbeddings
	}
	if err == nil {
		f.src, err = newGGUFSource(g, f.config)
	}
	if err != nil {
		_ = g.Close()
		return nil, err
	}
	return f, nil
}

func openFolder(dir string, tokenizerOptional bool, check func(*Config) error) (*files, error) {
	f := &files{format: "safetensors"}
	var err error
	if f.config, err = readConfig(dir); err == nil && check != nil {
		err = check(&f.config)
	}
	if err != nil {
		return nil, err
	}
	if err := f.readTokenizer(tokenizerOptional, func() error { return f.loadTokenizer(dir) }); err != nil {
		return nil, err
	}
	switch text, err := readFile(dir, "generation_config.json"); {
	case errors.Is(err, fs.ErrNotExist):
		f.Generation = generationFromConfig(f.config)
	case err != nil:
		return nil, err
	default:
		if f.Generation, err = ParseGenerationConfig(text); err != nil {
			return nil, err
		}
	}
	folder, err := safetensors.OpenFolder(dir)
	if err != nil {
		return nil, err
	}
	f.src, f.close = folderSource{folder}, folder.Close
	return f, nil
}

// readTokenizer calls the function read. If the tokenizer is optional, it keeps
// the error in b.TokenizerErr and returns nil.
func (b *Bundle) readTokenizer(optional bool, read func() error) error {
	b.TokenizerErr = read()
	if b.TokenizerErr == nil || !optional {
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

// readConfig reads the configuration of a Hugging Face folder.
func readConfig(dir string) (Config, error) {
	text, err := readFile(dir, "config.json")
	if err != nil {
		return Config{}, err
	}
	c, err := ParseConfig(text)
	if err != nil {
		return c, fmt.Errorf("%s: %w", dir, err)
	}
	return c, nil
}

// maxSmall bounds the size in bytes of files other than the weights.
const maxSmall = 256 << 20

// readFile reads a file of at most maxSmall bytes in a model folder.
func readFile(dir, name string) ([]byte, error) {
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxSmall {
		return nil, fmt.Errorf("%s is larger than %d MiB", path, maxSmall>>20)
	}
	return os.ReadFile(path)
}

// Description describes a model whose weights are not loaded.
type Description struct {
	Config          Config
	Parameters      int
	Tokens          int    // size of the tokenizer
	ChatTemplate    string // source of the template
	Format          string // "safetensors" or "gguf"
	TensorTypes     map[string]int
	WeightBytes     int64
	Tokenizer       *tokenizer.Tokenizer
	TokenizerConfig tokenizer.Config
	Adapters        *LoRA // nil unless the folder has adapters; the other fields describe the base model
}

// Describe reads everything that Open reads except the weights. Of the options it
// uses FindBase.
func Describe(path string, o Options) (*Description, error) {
	d, err := describe(path, o)
	if err != nil {
		return nil, fmt.Errorf("describe model %s: %w", path, err)
	}
	return d, nil
}

func describe(path string, o Options) (*Description, error) {
	base, chain, err := resolve(path, o.FindBase)
	if err != nil {
		return nil, err
	}
	f, err := openFiles(base, false, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", base, err)
	}
	defer f.close()
	d := &Description{
		Config: f.config, Tokens: f.Tokenizer.Size(), ChatTemplate: f.ChatTemplate(), Format: f.format, TensorTypes: map[string]int{},
		Tokenizer: f.Tokenizer, TokenizerConfig: f.TokenizerConfig,
	}
	if len(chain) > 0 {
		d.Adapters = &chain[0].lora
	}
	if d.Parameters, err = d.Config.NumParameters(); err != nil {
		return nil, err
	}
	d.WeightBytes, err = f.src.count(d.TensorTypes)
	return d, err
}
