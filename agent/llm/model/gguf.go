package model

import (
	"strings"

	"github.com/openmanus/openmanus/agent/llm/gguf"
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
