package model

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/openmanus/openmanus/agent/llm/gguf"
	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/torch/safetensors"
)

// Description describes a model without its weights loaded.
type Description struct {
	Config          Config
	Parameters      int
	Tokens          int    // size of the tokenizer
	ChatTemplate    string // source
	Format          string // "safetensors" or "gguf"
	TensorTypes     map[string]int
	WeightBytes     int64
	TokenizerConfig tokenizer.Config
	Adapters        *LoRA // of a folder of adapters; the other fields then describe the base model
}

// Describe reads everything that Open reads except the weights.
func Describe(path string) (*Description, error) {
	d, err := describe(path, 0)
	if err != nil {
		return nil, fmt.Errorf("describe model %s: %w", path, err)
	}
	if d.Parameters, err = d.Config.NumParameters(); err != nil {
		return nil, fmt.Errorf("describe model %s: %w", path, err)
	}
	d.ChatTemplate = d.TokenizerConfig.ChatTemplate
	return d, nil
}

func describe(path string, adapted int) (*Description, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return describeGGUF(path)
	}
	text, err := readFile(path, "config.json")
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(path, adapterConfigFile)); err == nil {
			return describeAdapted(path, adapted+1)
		}
		file, err := onlyGGUF(path)
		if err != nil {
			return nil, err
		}
		return describeGGUF(file)
	}
	if err != nil {
		return nil, err
	}
	d := &Description{Format: "safetensors", TensorTypes: map[string]int{}}
	if d.Config, err = ParseConfig(text); err != nil {
		return nil, err
	}
	tok, err := tokenizer.Load(path)
	if err != nil {
		return nil, err
	}
	d.Tokens = tok.Size()
	if d.TokenizerConfig, err = tokenizer.LoadConfig(path); err != nil {
		return nil, err
	}
	f, err := safetensors.OpenFolder(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for _, n := range f.Names() {
		info, data, err := f.Tensor(n)
		if err != nil {
			return nil, err
		}
		d.TensorTypes[string(info.DType)]++
		d.WeightBytes += int64(len(data))
	}
	return d, nil
}

// describeAdapted describes the base model of a folder of adapters.
func describeAdapted(dir string, adapted int) (*Description, error) {
	o, base, err := readAdapted(dir, adapted)
	if err != nil {
		return nil, err
	}
	d, err := describe(base, adapted)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", base, err)
	}
	d.Adapters = &o
	return d, nil
}

func describeGGUF(path string) (*Description, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d := &Description{Format: "gguf", TensorTypes: map[string]int{}}
	if d.Config, err = ggufConfig(f); err != nil {
		return nil, err
	}
	tok, tc, err := f.Metadata().Tokenizer()
	if err != nil {
		return nil, err
	}
	d.Tokens, d.TokenizerConfig = tok.Size(), tc
	for _, n := range f.Names() {
		info, data, err := f.Tensor(n)
		if err != nil {
			return nil, err
		}
		d.TensorTypes[info.Type.String()]++
		d.WeightBytes += int64(len(data))
	}
	return d, nil
}
