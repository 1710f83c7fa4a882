package model

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/openmanus/openmanus/agent/llm/gguf"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/nn"
	"github.com/openmanus/openmanus/torch/safetensors"
)

// ropeFactors is the tensor with which GGUF files express llama3 scaling.
const ropeFactors = "rope_freqs.weight"

// ggufKeys are the supported keys below the architecture's name that Config.settings
// does not list. Any other key may change the arithmetic and is an error.
var ggufKeys = []string{
	"vocab_size", "tensor_data_layout", "attention.value_length", "rope.freq_base", "rope.dimension_count", "rope.scaling.type",
	"rope.scaling.factor", "rope.scaling.original_context_length", "rope.scaling.finetuned",
}

// ggufConfig reads a model's configuration from a GGUF file.
func ggufConfig(f *gguf.File) (Config, error) {
	meta := f.Metadata()
	arch, err := meta.String("general.architecture")
	if err != nil {
		return Config{}, err
	}
	family, err := lookupFamily(arch)
	if err != nil {
		return Config{}, fmt.Errorf("general.architecture: %w", err)
	}
	r := &ggufReader{meta: meta, arch: arch}
	c := Config{ModelType: arch, InitializerRange: 0.02, DType: "float32", RopeTheta: 10000, Extra: family.newExtra()}
	r.settings(&c)
	if r.has("rope.freq_base") {
		c.RopeTheta = r.float("rope.freq_base")
	}
	r.rope(&c, f)
	if info, ok := f.Info("token_embd.weight"); ok && len(info.Shape) == 2 {
		c.VocabSize = info.Shape[0]
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

// ggufReader reads hyper-parameters from a GGUF's metadata.
type ggufReader struct {
	meta *gguf.Metadata
	arch string
	errs []error
}

// settings reads the settings that GGUF has and refuses unknown keys. As in
// llama.cpp, the number of key heads defaults to the number of query heads,
// and the head width to the hidden size divided by the number of query heads.
func (r *ggufReader) settings(c *Config) {
	var known []string
	for _, s := range c.settings() {
		known = append(known, s.GGUF)
		optional := s.Field == &c.NumKeyValueHeads || s.Field == &c.HeadDim
		if s.GGUF == "" || optional && !r.has(s.GGUF) {
			continue
		}
		switch v := s.Field.(type) {
		case *int:
			*v = r.int(s.GGUF)
		case *float64:
			*v = r.float(s.GGUF)
		case *bool:
			*v = r.bool(s.GGUF)
		}
	}
	c.NumKeyValueHeads = cmp.Or(c.NumKeyValueHeads, c.NumAttentionHeads)
	if c.HeadDim == 0 && c.NumAttentionHeads > 0 {
		c.HeadDim = c.HiddenSize / c.NumAttentionHeads
	}
	for _, k := range []string{"attention.value_length", "rope.dimension_count"} {
		if r.has(k) && r.int(k) != c.HeadDim {
			r.errs = append(r.errs, fmt.Errorf("%s.%s is %d and a head has %d dimensions: only equal numbers are supported", r.arch, k, r.int(k), c.HeadDim))
		}
	}
	for _, key := range slices.Sorted(slices.Values(r.meta.Keys())) {
		k, ok := strings.CutPrefix(key, r.arch+".")
		switch {
		case !ok, slices.Contains(known, k), slices.Contains(ggufKeys, k):
		case k != "expert_count" && k != "expert_used_count":
			r.errs = append(r.errs, fmt.Errorf("metadata key %.80q is not known and may change the results of the model", key))
		case r.int(k) != 0:
			r.errs = append(r.errs, fmt.Errorf("%s is %d: mixtures of experts are not supported", key, r.int(k)))
		}
	}
}

func (r *ggufReader) has(key string) bool { return r.meta.Has(r.arch + "." + key) }

func (r *ggufReader) int(key string) int { return read(r, key, r.meta.Int) }

func (r *ggufReader) bool(key string) bool { return read(r, key, r.meta.Bool) }

// read reads a key below the architecture's name and records an error.
func read[T any](r *ggufReader, key string, get func(string) (T, error)) T {
	v, err := get(r.arch + "." + key)
	if err != nil {
		r.errs = append(r.errs, err)
	}
	return v
}

// float reads a float32 as the shortest decimal that rounds to it, so that
// 1e-5 does not become 9.999999747e-06 in a saved config.json.
func (r *ggufReader) float(key string) float64 {
	v := read(r, key, r.meta.Float32)
	d, err := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'g', -1, 32), 64)
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("%s.%s: %w", r.arch, key, err))
	}
	return d
}

func (r *ggufReader) rope(c *Config, f *gguf.File) {
	kind := "none"
	if r.has("rope.scaling.type") {
		kind = read(r, "rope.scaling.type", r.meta.String)
	}
	_, factors := f.Info(ropeFactors)
	switch {
	case kind == "linear" && !factors:
		c.RopeScaling = nn.RoPEScaling{Type: "linear", Factor: r.float("rope.scaling.factor")}
	case kind != "none":
		r.errs = append(r.errs, fmt.Errorf("%s.rope.scaling.type %q is not supported", r.arch, kind))
	case factors:
		original := 8192
		if r.has("rope.scaling.original_context_length") {
			original = r.int("rope.scaling.original_context_length")
		}
		v, err := f.Float32s(ropeFactors)
		if err == nil {
			c.RopeScaling, err = llama3FromFactors(*c, v, original)
		}
		if err != nil {
			r.errs = append(r.errs, fmt.Errorf("%s: %w", ropeFactors, err))
		}
	}
}

// llama3FromFactors returns the llama3 scaling that gives the divisors of the
// frequencies in a GGUF file. Only the factor varies between published models
// (Llama 3.1: 8, 3.2: 32); WriteGGUF also stores the number of original positions.
// Other divisors are an error.
func llama3FromFactors(c Config, divisors []float32, original int) (nn.RoPEScaling, error) {
	if len(divisors) != c.HeadDim/2 || len(divisors) == 0 {
		return nn.RoPEScaling{}, fmt.Errorf("%d factors for heads of %d dimensions", len(divisors), c.HeadDim)
	}
	plain := nn.RoPE{Theta: c.RopeTheta, HeadDim: c.HeadDim}
	c.RopeScaling = nn.RoPEScaling{
		Type: "llama3", Factor: float64(slices.Max(divisors)),
		LowFreqFactor: 1, HighFreqFactor: 4, OriginalMaxPositions: original,
	}
	unscaled := plain.Frequencies()
	for i, f := range c.rope().Frequencies() {
		if d := unscaled[i]/f - divisors[i]; !(d <= 1e-3*divisors[i] && d >= -1e-3*divisors[i]) {
			return nn.RoPEScaling{}, fmt.Errorf("factor %d is %v, which is not llama3 scaling by %v", i, divisors[i], c.RopeScaling.Factor)
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
		n := int32(min(max(int64(v), -1), 1<<31-1)) // clamped to int32; Validate rejects an id outside the vocabulary
		return &n
	}
	c.BOSTokenID, c.PadTokenID = id("bos_token_id"), id("padding_token_id")
	// eos ends a text, eom a message and eot a turn; they are equal in most files.
	for _, p := range []*int32{id("eos_token_id"), id("eom_token_id"), id("eot_token_id")} {
		if p != nil && !slices.Contains(c.EOSTokenIDs, *p) {
			c.EOSTokenIDs = append(c.EOSTokenIDs, *p)
		}
	}
}

// ggufSource reads a GGUF file's tensors under checkpoint names.
type ggufSource struct {
	f       *gguf.File
	m       *Model            // declares the tensors; has no weights
	weights map[string]weight // weights by checkpoint name
}

func newGGUFSource(f *gguf.File, c Config) (*ggufSource, error) {
	m, err := newDecoder(c)
	if err != nil {
		return nil, err
	}
	g := &ggufSource{f: f, m: m, weights: map[string]weight{}}
	for _, w := range m.declared.weights {
		g.weights[w.name] = w
	}
	return g, nil
}

// Names implements source.
func (g *ggufSource) Names() []string {
	known := map[string]string{}
	for name, w := range g.weights {
		known[w.gguf] = name
	}
	var list []string
	for _, raw := range g.f.Names() {
		switch name, ok := known[raw]; {
		case ok:
			list = append(list, name)
		case raw != ropeFactors: // ropeFactors is not a weight; ggufConfig reads it
			list = append(list, raw)
		}
	}
	return list
}

// Info implements source. It describes the float32 tensor that the method read returns.
func (g *ggufSource) Info(name string) (safetensors.Info, bool) {
	w, ok := g.weights[name]
	if !ok {
		return safetensors.Info{}, false
	}
	info, ok := g.f.Info(w.gguf)
	return safetensors.Info{DType: safetensors.F32, Shape: info.Shape}, ok
}

func (g *ggufSource) count(types map[string]int) (bytes int64, err error) {
	for _, n := range g.f.Names() {
		info, data, err := g.f.Tensor(n)
		if err != nil {
			return 0, err
		}
		types[info.Type.String()]++
		bytes += int64(len(data))
	}
	return bytes, nil
}

func (g *ggufSource) read(s *torch.Scope, name string) (torch.Tensor, error) {
	w := g.weights[name]
	v, err := g.f.Float32s(w.gguf)
	if err != nil {
		return torch.Tensor{}, err
	}
	t := s.Float32s(v, w.shape...)
	if w.rotary && g.m.family.ggufInterleaved {
		t = deinterleave(t, w.shape, g.m.Config.HeadDim)
	}
	return t, nil
}

// readPart dequantises the whole tensor and cuts it.
func (g *ggufSource) readPart(s *torch.Scope, name string, dim, at, n int) (torch.Tensor, error) {
	t, err := g.read(s, name)
	if err != nil {
		return t, err
	}
	return t.Narrow(dim, at, n).Clone(), nil
}

// deinterleave reorders the rows of a rotated projection, a matrix or a bias.
// ggml rotates neighbouring dimensions of a head (i, i+1), transformers the two
// halves (i, i+Dh/2). Row (h, i, j) of the file is therefore row (h, j, i) of
// the checkpoint, where j is the number of the half.
func deinterleave(t torch.Tensor, shape []int, headDim int) torch.Tensor {
	return t.View(shape[0]/headDim, headDim/2, 2, -1).Transpose(1, 2).Reshape(shape...)
}
