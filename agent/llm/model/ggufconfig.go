package model

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/openmanus/openmanus/agent/llm/gguf"
)

// ropeFactors is the tensor by which GGUF files express llama3 scaling.
const ropeFactors = "rope_freqs.weight"

// ggufReader reads hyper-parameters from a GGUF's metadata.
type ggufReader struct {
	meta *gguf.Metadata
	arch string
	errs []error
}

// ggufHyper are the keys below the architecture's name that are understood.
// Any other may change the arithmetic and is an error.
var ggufHyper = []string{
	"context_length", "embedding_length", "block_count", "feed_forward_length", "vocab_size", "tensor_data_layout",
	"attention.head_count", "attention.head_count_kv", "attention.layer_norm_rms_epsilon", "attention.key_length",
	"attention.value_length", "rope.freq_base", "rope.dimension_count", "rope.scaling.type", "rope.scaling.factor",
	"rope.scaling.original_context_length", "rope.scaling.finetuned", "expert_count", "expert_used_count",
}

// ggufConfig reads a model's configuration from a GGUF file.
func ggufConfig(f *gguf.File) (Config, error) {
	meta := f.Metadata()
	arch, err := meta.String("general.architecture")
	if err != nil {
		return Config{}, err
	}
	if !known(arch) {
		return Config{}, fmt.Errorf("general.architecture: %w", unknownModelType(arch))
	}
	r := &ggufReader{meta: meta, arch: arch}
	r.checkKeys()
	c := Config{
		ModelType: arch, InitializerRange: 0.02, DType: "float32",
		HiddenSize:            r.int("embedding_length"),
		IntermediateSize:      r.int("feed_forward_length"),
		NumHiddenLayers:       r.int("block_count"),
		NumAttentionHeads:     r.int("attention.head_count"),
		MaxPositionEmbeddings: r.int("context_length"),
		RMSNormEps:            r.float("attention.layer_norm_rms_epsilon"),
		RopeTheta:             10000,
	}
	c.NumKeyValueHeads = c.NumAttentionHeads
	if r.has("attention.head_count_kv") {
		c.NumKeyValueHeads = r.int("attention.head_count_kv")
	}
	if r.has("rope.freq_base") {
		c.RopeTheta = r.float("rope.freq_base")
	}
	r.headDim(&c)
	r.rope(&c, f)
	if info, ok := f.Info("token_embd.weight"); ok && len(info.Shape) == 2 {
		c.VocabSize = int(info.Shape[0])
	} else {
		r.errs = append(r.errs, errors.New("tensor token_embd.weight is missing or is not a matrix"))
	}
	_, untied := f.Info("output.weight")
	c.TieWordEmbeddings = !untied
	r.specials(&c)
	if err := errors.Join(r.errs...); err != nil {
		return Config{}, err
	}
	return c, c.Validate()
}

func (r *ggufReader) checkKeys() {
	keys := r.meta.Keys()
	sort.Strings(keys)
	for _, k := range keys {
		if rest, ok := strings.CutPrefix(k, r.arch+"."); ok && !slices.Contains(ggufHyper, rest) {
			r.errs = append(r.errs, fmt.Errorf("metadata key %q is not known, so the model may compute something else", clip(k)))
		}
	}
	for _, k := range []string{"expert_count", "expert_used_count"} {
		if r.has(k) && r.int(k) != 0 {
			r.errs = append(r.errs, fmt.Errorf("%s.%s is %d: mixtures of experts are not supported", r.arch, k, r.int(k)))
		}
	}
}

func (r *ggufReader) has(key string) bool { return r.meta.Has(r.arch + "." + key) }

func (r *ggufReader) int(key string) int {
	v, err := r.meta.Int(r.arch + "." + key)
	if err != nil {
		r.errs = append(r.errs, err)
	}
	return v
}

// float reads a float32 as the shortest decimal that rounds to it, so that
// 1e-5 does not become 9.999999747e-06 in a saved config.json.
func (r *ggufReader) float(key string) float64 {
	v, err := r.meta.Float32(r.arch + "." + key)
	if err != nil {
		r.errs = append(r.errs, err)
		return 0
	}
	d, err := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'g', -1, 32), 64)
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("%s.%s: %w", r.arch, key, err))
	}
	return d
}

func (r *ggufReader) headDim(c *Config) {
	switch {
	case r.has("attention.key_length"):
		c.HeadDim = r.int("attention.key_length")
	case c.NumAttentionHeads > 0:
		c.HeadDim = c.HiddenSize / c.NumAttentionHeads
	}
	for _, k := range []string{"attention.value_length", "rope.dimension_count"} {
		if r.has(k) && r.int(k) != c.HeadDim {
			r.errs = append(r.errs, fmt.Errorf("%s.%s is %d and a head has %d dimensions: only equal ones are supported", r.arch, k, r.int(k), c.HeadDim))
		}
	}
}

func (r *ggufReader) rope(c *Config, f *gguf.File) {
	kind := "none"
	if r.has("rope.scaling.type") {
		var err error
		if kind, err = r.meta.String(r.arch + ".rope.scaling.type"); err != nil {
			r.errs = append(r.errs, err)
		}
	}
	_, factors := f.Info(ropeFactors)
	switch {
	case kind == "linear" && !factors:
		c.RopeScaling = RopeScaling{Type: "linear", Factor: r.float("rope.scaling.factor")}
	case kind != "none":
		r.errs = append(r.errs, fmt.Errorf("%s.rope.scaling.type %q is not supported", r.arch, kind))
	case factors:
		v, err := f.Float32s(ropeFactors)
		if err == nil {
			c.RopeScaling, err = llama3FromFactors(*c, v)
		}
		if err != nil {
			r.errs = append(r.errs, fmt.Errorf("%s: %w", ropeFactors, err))
		}
	}
}

// llama3FromFactors finds the llama3 scaling whose divisors of the frequencies
// are those of a GGUF. Only the factor varies between the models that use it
// (Llama 3.1: 8, 3.2: 32); other divisors are refused.
func llama3FromFactors(c Config, divisors []float32) (RopeScaling, error) {
	if len(divisors) != c.HeadDim/2 || len(divisors) == 0 {
		return RopeScaling{}, fmt.Errorf("%d factors for heads of %d dimensions", len(divisors), c.HeadDim)
	}
	c.RopeScaling = RopeScaling{}
	plain := c.rope()
	c.RopeScaling = RopeScaling{
		Type: "llama3", Factor: float64(slices.Max(divisors)),
		LowFreqFactor: 1, HighFreqFactor: 4, OriginalMaxPositionEmbeddings: 8192,
	}
	scaled, unscaled := c.rope(), plain.Frequencies()
	for i, f := range scaled.Frequencies() {
		if d := unscaled[i]/f - divisors[i]; !(d <= 1e-3*divisors[i] && d >= -1e-3*divisors[i]) {
			return RopeScaling{}, fmt.Errorf("factor %d is %v, which is not llama3 scaling by %v", i, divisors[i], c.RopeScaling.Factor)
		}
	}
	return c.RopeScaling, nil
}

func (r *ggufReader) specials(c *Config) {
	id := func(key string) *int32 {
		key = "tokenizer.ggml." + key
		if !r.meta.Has(key) {
			return nil
		}
		v, err := r.meta.Int(key)
		if err != nil {
			r.errs = append(r.errs, err)
			return nil
		}
		n := int32(min(max(int64(v), -1), 1<<31-1)) // Validate compares it with the vocabulary
		return &n
	}
	c.BOSTokenID, c.PadTokenID = id("bos_token_id"), id("padding_token_id")
	// eot ends a turn where eos ends a text; they are equal in most files.
	for _, p := range []*int32{id("eos_token_id"), id("eot_token_id")} {
		if p != nil && !slices.Contains(c.EOSTokenIDs, *p) {
			c.EOSTokenIDs = append(c.EOSTokenIDs, *p)
		}
	}
}
