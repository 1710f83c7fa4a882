package model

import (
	"fmt"
	"strings"

	"github.com/openmanus/openmanus/agent/model/gguf"
	"github.com/openmanus/openmanus/agent/tokenizer"
	"github.com/openmanus/openmanus/torch"
)

// ggufNames maps the parts of checkpoint names to those of GGUF files
// (llama.cpp's gguf-py/gguf/constants.py).
var ggufNames = map[string]string{
	"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
	"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
	"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
	"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
	"mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}

// ggufName returns the GGUF name of a checkpoint's parameter.
func ggufName(name string) string {
	dot := strings.LastIndexByte(name, '.')
	base, kind := name[:dot], name[dot:]
	if rest, ok := strings.CutPrefix(base, "model.layers."); ok {
		layer, part, _ := strings.Cut(rest, ".")
		return "blk." + layer + "." + ggufNames[part] + kind
	}
	return ggufNames[base] + kind
}

// ggufSource reads a GGUF file's tensors under checkpoint names.
type ggufSource struct {
	f    *gguf.File
	c    Config
	from map[string]string // checkpoint name -> GGUF name
}

func newGGUFSource(f *gguf.File, c Config) (*ggufSource, error) {
	d, err := newDecoder(c)
	if err != nil {
		return nil, err
	}
	g := &ggufSource{f: f, c: c, from: map[string]string{}}
	for _, w := range d.weights() {
		g.from[w.name] = ggufName(w.name)
	}
	return g, nil
}

func (g *ggufSource) names() []string {
	known := map[string]string{}
	for name, raw := range g.from {
		known[raw] = name
	}
	var list []string
	for _, raw := range g.f.Names() {
		switch name, ok := known[raw]; {
		case ok:
			list = append(list, name)
		case raw != ropeFactors: // read by ggufConfig
			list = append(list, raw)
		}
	}
	return list
}

func (g *ggufSource) shape(name string) ([]int, bool) {
	raw, ok := g.from[name]
	if !ok {
		return nil, false
	}
	info, ok := g.f.Info(raw)
	return toInts(info.Shape), ok
}

func (g *ggufSource) read(s *torch.Scope, name string) (torch.Tensor, error) {
	v, err := g.f.Float32s(g.from[name])
	if err != nil {
		return torch.Tensor{}, err
	}
	shape, _ := g.shape(name)
	t := s.Float32s(v, shape...)
	if familyOf(g.c.ModelType).ggufPermuted {
		switch {
		case strings.HasSuffix(name, ".q_proj.weight"):
			t = unpermute(t, g.c.NumAttentionHeads, shape)
		case strings.HasSuffix(name, ".k_proj.weight"):
			t = unpermute(t, g.c.NumKeyValueHeads, shape)
		}
	}
	return t, nil
}

// unpermute undoes the row order of llama GGUFs. ggml rotates neighbouring
// dimensions of a head (i, i+1), transformers the two halves (i, i+Dh/2), so
// the file holds row (h, i, j) where the checkpoint has (h, j, i), j being the
// half.
func unpermute(t torch.Tensor, heads int, shape []int) torch.Tensor {
	half := shape[0] / heads / 2
	return t.View(heads, half, 2, shape[1]).Transpose(1, 2).Reshape(shape...)
}

// ggufTokenizer reads the tokenizer and the chat template from the metadata.
func ggufTokenizer(meta *gguf.Metadata) (*tokenizer.Tokenizer, tokenizer.Config, error) {
	r := &vocabReader{meta: meta}
	v := tokenizer.GGUFVocab{
		Model: get(r, "tokenizer.ggml.model", meta.String), Pre: get(r, "tokenizer.ggml.pre", meta.String),
		Tokens: get(r, "tokenizer.ggml.tokens", meta.Strings), TokenTypes: get(r, "tokenizer.ggml.token_type", meta.Int32s),
		Merges: get(r, "tokenizer.ggml.merges", meta.Strings),
		BOS:    r.id("bos_token_id"), EOS: r.id("eos_token_id"), EOT: r.id("eot_token_id"), Pad: r.id("padding_token_id"),
	}
	if meta.Has("tokenizer.ggml.add_bos_token") {
		v.AddBOS = get(r, "tokenizer.ggml.add_bos_token", meta.Bool)
	}
	if r.err != nil {
		return nil, tokenizer.Config{}, r.err
	}
	tok, err := tokenizer.FromGGUF(v)
	if err != nil {
		return nil, tokenizer.Config{}, err
	}
	var c tokenizer.Config
	for _, special := range []struct {
		id    int32
		field *string
	}{{v.BOS, &c.BOS}, {v.EOS, &c.EOS}, {v.Pad, &c.Pad}} {
		if special.id >= 0 {
			*special.field, _ = tok.IDToToken(special.id)
		}
	}
	if meta.Has("tokenizer.chat_template") {
		c.ChatTemplate = get(r, "tokenizer.chat_template", meta.String)
		c.Templates = map[string]string{"default": c.ChatTemplate}
	}
	return tok, c, r.err
}

// vocabReader keeps the first error of several reads.
type vocabReader struct {
	meta *gguf.Metadata
	err  error
}

func get[T any](r *vocabReader, key string, f func(string) (T, error)) T {
	v, err := f(key)
	if err != nil && r.err == nil {
		r.err = err
	}
	return v
}

// id reads the id of a special token, -1 if there is none.
func (r *vocabReader) id(name string) int32 {
	key := "tokenizer.ggml." + name
	if !r.meta.Has(key) {
		return -1
	}
	v := get(r, key, r.meta.Int)
	if v < -1 || v > 1<<30 {
		r.err = fmt.Errorf("gguf metadata %q: %d cannot be a token id", key, v)
	}
	return int32(v)
}
