package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/safetensors"
	"github.com/openmanus/openmanus/torch/store"
)

// A folder of PEFT's save_pretrained: adapter_config.json, and
// adapter_model.safetensors with the matrices under the names of PEFT's model.
const (
	adapterConfigFile = "adapter_config.json"
	adapterFile       = "adapter_model.safetensors"
	peftPrefix        = "base_model.model."
	peftA             = ".lora_A.weight"
	peftB             = ".lora_B.weight"

	// baseKey is the key of the file's metadata that holds a fingerprint of the
	// base weights.
	baseKey = "openmanus_base"
)

// peftConfig is adapter_config.json: the fields of LoRA, and PEFT settings
// that change the arithmetic and are supported only with their default value.
type peftConfig struct {
	PeftType    string          `json:"peft_type"`
	TaskType    string          `json:"task_type"`
	Base        string          `json:"base_model_name_or_path"`
	Rank        int             `json:"r"`
	Alpha       float64         `json:"lora_alpha"`
	Dropout     float64         `json:"lora_dropout"`
	Targets     json.RawMessage `json:"target_modules"`
	RSLoRA      bool            `json:"use_rslora"`
	Inference   bool            `json:"inference_mode"`
	InitWeights any             `json:"init_lora_weights"`

	Bias          string          `json:"bias"`
	DoRA          bool            `json:"use_dora,omitempty"`
	FanInFanOut   bool            `json:"fan_in_fan_out"`
	LoRABias      bool            `json:"lora_bias,omitempty"`
	ModulesToSave json.RawMessage `json:"modules_to_save"`
	Layers        json.RawMessage `json:"layers_to_transform"`
	RankPattern   map[string]any  `json:"rank_pattern"`
	AlphaPattern  map[string]any  `json:"alpha_pattern"`
}

// SaveAdapters writes the adapters into an existing folder that PEFT opens with
// the base model LoRA.Base. Every file appears complete or not at all;
// adapter_config.json comes last. If the model is sharded, all ranks call
// SaveAdapters, and rank 0 writes the files.
func (m *Model) SaveAdapters(ctx context.Context, dir string) error {
	if m.lora == nil {
		return errors.New("save adapters: the model has no adapters")
	}
	if err := m.errTensorParallel(); err != nil {
		return fmt.Errorf("save adapters: %w", err)
	}
	norm, err := m.weightNorm(ctx)
	if err != nil {
		return fmt.Errorf("save adapters: %w", err)
	}
	if !m.writes() {
		return nil
	}
	fingerprint := m.dtype.String() + " " + strconv.FormatFloat(norm, 'g', -1, 64)
	if err := store.Save(ctx, m.thread, filepath.Join(dir, adapterFile), m.Adapters(), map[string]string{baseKey: fingerprint}); err != nil {
		return fmt.Errorf("save adapters: %w", err)
	}
	config, err := m.lora.json()
	if err != nil {
		return fmt.Errorf("save adapters: %w", err)
	}
	return writeFile(filepath.Join(dir, adapterConfigFile), config)
}

// json returns the adapter_config.json.
func (a *adapters) json() ([]byte, error) {
	o := a.o
	list, err := json.Marshal(a.targets)
	if err != nil {
		return nil, err
	}
	none := json.RawMessage("null")
	return indented(peftConfig{
		PeftType: "LORA", TaskType: "CAUSAL_LM", Base: o.Base, Rank: o.Rank, Alpha: o.Alpha, Dropout: o.Dropout, Targets: list,
		RSLoRA: o.RSLoRA, Inference: true, InitWeights: true, Bias: "none", ModulesToSave: none, Layers: none,
		RankPattern: map[string]any{}, AlphaPattern: map[string]any{},
	})
}

// parseLoRA reads an adapter_config.json.
func parseLoRA(text []byte) (LoRA, error) {
	var c peftConfig
	if err := json.Unmarshal(text, &c); err != nil {
		return LoRA{}, err
	}
	given := func(raw json.RawMessage) bool {
		s := string(bytes.TrimSpace(raw))
		return s != "" && s != "null" && s != "[]"
	}
	for _, f := range []struct {
		key string
		bad bool
	}{
		{`peft_type other than "LORA"`, c.PeftType != "LORA"},
		{`bias other than "none"`, c.Bias != "" && c.Bias != "none"},
		{"use_dora", c.DoRA},
		{"fan_in_fan_out", c.FanInFanOut},
		{"lora_bias", c.LoRABias},
		{"modules_to_save", given(c.ModulesToSave)},
		{"layers_to_transform", given(c.Layers)},
		{"rank_pattern", len(c.RankPattern) > 0},
		{"alpha_pattern", len(c.AlphaPattern) > 0},
	} {
		if f.bad {
			return LoRA{}, fmt.Errorf("%s is not supported; merge these adapters with PEFT (merge_and_unload) and open the result", f.key)
		}
	}
	o := LoRA{Rank: c.Rank, Alpha: c.Alpha, Dropout: c.Dropout, RSLoRA: c.RSLoRA, Base: c.Base}
	var one string
	if json.Unmarshal(c.Targets, &one) == nil {
		o.Targets = []string{one}
	} else if err := json.Unmarshal(c.Targets, &o.Targets); err != nil {
		return LoRA{}, fmt.Errorf("target_modules: %w", err)
	}
	if err := o.Validate(); err != nil {
		return LoRA{}, err
	}
	return o, nil
}

func readLoRA(dir string) (LoRA, error) {
	text, err := readFile(dir, adapterConfigFile)
	if err != nil {
		return LoRA{}, err
	}
	o, err := parseLoRA(text)
	if err != nil {
		return LoRA{}, fmt.Errorf("%s: %w", filepath.Join(dir, adapterConfigFile), err)
	}
	return o, nil
}

// LoadAdapters overwrites the adapters with the adapters in a folder. Rank,
// scale, layers and base weights must be the same.
func (m *Model) LoadAdapters(ctx context.Context, dir string) error {
	if m.lora == nil {
		return errors.New("load adapters: the model has no adapters")
	}
	o, err := readLoRA(dir)
	if err != nil {
		return fmt.Errorf("load adapters: %w", err)
	}
	adapted := m.lora.targets
	targets, err := o.targets(m.declared.appendShort(nil))
	if err != nil {
		return fmt.Errorf("load adapters from %s: %w", dir, err)
	}
	if o.Rank != m.lora.o.Rank || o.scale() != m.lora.o.scale() || !slices.Equal(adapted, targets) {
		return fmt.Errorf("load adapters from %s: the folder has rank %d, scale %v and layers %v, the model rank %d, scale %v and layers %v",
			dir, o.Rank, o.scale(), targets, m.lora.o.Rank, m.lora.o.scale(), adapted)
	}
	if err := m.readAdapters(ctx, dir); err != nil {
		return fmt.Errorf("load adapters from %s: %w", dir, err)
	}
	return nil
}

func (m *Model) readAdapters(ctx context.Context, dir string) error {
	f, err := safetensors.Open(filepath.Join(dir, adapterFile))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := m.checkBase(ctx, f.Metadata()[baseKey]); err != nil {
		return err
	}
	if err := m.loadAdapters(ctx, f); err != nil {
		return fmt.Errorf("the adapters do not fit the model: %w", err)
	}
	return nil
}

// weightNorm returns the global norm of the frozen weights. The norm and the dtype
// identify the weights. The norm is computed many times faster than a hash.
func (m *Model) weightNorm(ctx context.Context) (norm float64, err error) {
	err = torch.Run(ctx, m.thread, func(s *torch.Scope) error {
		s.NoGrad(func() {
			if m.tp != nil {
				norm = m.tp.norm(s, m.Params())
				return
			}
			if !m.weightsSharded() && m.deferred == nil {
				var ts []torch.Tensor
				for _, p := range m.Params() {
					ts = append(ts, p.Tensor)
				}
				norm = torch.GlobalNorm(ts)
				return
			}
			squares := 0.0
			for i := range m.declared.weights {
				s.Do(func(s *torch.Scope) { squares += math.Pow(torch.GlobalNorm([]torch.Tensor{m.value(s, i)}), 2) })
			}
			norm = math.Sqrt(squares)
		})
		return nil
	})
	return norm, err
}

// checkBase returns an error if the adapters were trained on other weights.
// Files written by PEFT have no fingerprint and are accepted.
func (m *Model) checkBase(ctx context.Context, fingerprint string) error {
	if fingerprint == "" {
		return nil
	}
	kind, text, _ := strings.Cut(fingerprint, " ")
	stored, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("the metadata key %s is %.80q, want a dtype and a norm", baseKey, fingerprint)
	}
	norm, err := m.weightNorm(ctx)
	if err != nil {
		return err
	}
	// The norm may differ slightly, because another processor may add in another
	// order. The norm differs more in another dtype, because the weights are rounded.
	tolerance := 1e-9
	if kind != m.dtype.String() {
		tolerance = 1e-4
	}
	if math.Abs(stored-norm) <= tolerance*norm {
		return nil
	}
	return fmt.Errorf("the frozen weights have norm %v, the adapters were trained on weights of norm %v: this is another base model", norm, stored)
}

// adapt puts the adapters of a folder on the model, and uses the folder's
// tokenizer if it has one. Adapters already on the model are merged first.
func (b *Bundle) adapt(ctx context.Context, a adapterFolder, tokenizerOptional bool) error {
	if err := b.Model.Merge(ctx); err != nil {
		return err
	}
	if err := b.Model.addLoRA(ctx, a.lora, 0); err != nil {
		return err
	}
	if err := b.Model.readAdapters(ctx, a.dir); err != nil {
		return err
	}
	if !exists(a.dir, "tokenizer.json") {
		return nil
	}
	return b.readTokenizer(tokenizerOptional, func() error { return b.loadTokenizer(a.dir) })
}

// basePath returns the path of the base model. The argument base is the path in
// adapter_config.json, which may be relative to the adapters' folder, or a name for findBase.
func basePath(dir, base string, findBase func(string) (string, error)) (string, error) {
	try := []string{base}
	if !filepath.IsAbs(base) {
		try = []string{filepath.Join(dir, base), base}
	}
	for _, p := range try {
		if _, err := os.Stat(p); base != "" && err == nil {
			return p, nil
		}
	}
	if base != "" && findBase != nil {
		path, err := findBase(base)
		if err != nil {
			return "", fmt.Errorf("the base model of the adapters in %s: %w", dir, err)
		}
		return path, nil
	}
	return "", fmt.Errorf("the base model %.80q of the adapters was not found: write its path into base_model_name_or_path of %s",
		base, filepath.Join(dir, adapterConfigFile))
}
