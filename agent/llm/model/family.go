package model

import (
	"fmt"
	"strings"

	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/nn"
)

// family describes one model_type. The file of a family registers it in init
// and needs no changes in other files: weight names, LoRA targets, FLOPs,
// copies and GGUF names follow from the fields and tags of the layers that the
// function block returns (docs/howto-model.md has an example).
type family struct {
	class string // transformers' class of the causal language model

	// block returns layer i of the decoder without weights. It chooses the
	// kinds of attention and feed-forward block per layer.
	block func(c *Config, i int) nn.Layer

	// defaults sets keys that config.json leaves out; nil: none has a default.
	defaults func(c *Config)
	// extra returns storage for hyper-parameters that only this family
	// has; nil: the family has none.
	extra func() Extra

	ignored     []string // keys of config.json that do not change the result
	writesFalse []string // keys that are written to config.json as false

	// ggufInterleaved is set if GGUF files order the rows of a rotated projection by
	// ggml's pairs (i, i+1) instead of transformers' pairs (i, i+Dh/2).
	ggufInterleaved bool
}

// Extra holds the hyper-parameters of one family that Config has no field for.
type Extra interface {
	// Settings lists these hyper-parameters with pointers to their fields.
	Settings() []Setting
}

// classifier returns transformers' class of the family's sequence classifiers.
func (f family) classifier() string {
	return strings.TrimSuffix(f.class, "ForCausalLM") + "ForSequenceClassification"
}

func (f family) newExtra() Extra {
	if f.extra == nil {
		return nil
	}
	return f.extra()
}

// families holds the families by model_type.
var families = registry.New[family]("model_type")

// ModelTypes returns the supported values of config.json's model_type.
func ModelTypes() []string { return families.Names() }

// lookupFamily returns the family of a model_type, which may come from a user's file.
func lookupFamily(modelType string) (family, error) {
	f, err := families.Lookup(modelType)
	if err != nil {
		return f, fmt.Errorf("model_type %.80q is not supported (%s are)", modelType, strings.Join(ModelTypes(), ", "))
	}
	return f, nil
}

// preNorm is the block of llama and of most families after it:
//
//	h = x + attention(norm(x))
//	y = h + mlp(norm(h))
//
// A family with another order of norms declares another block.
type preNorm struct {
	AttnNorm nn.RMSNorm `hf:"input_layernorm" gguf:"attn_norm"`
	Attn     nn.Layer   `hf:"self_attn"`
	MLPNorm  nn.RMSNorm `hf:"post_attention_layernorm" gguf:"ffn_norm"`
	MLP      nn.Layer   `hf:"mlp"`
}

func newPreNorm(c *Config, attn, mlp nn.Layer) *preNorm {
	return &preNorm{AttnNorm: c.norm(c.HiddenSize), Attn: attn, MLPNorm: c.norm(c.HiddenSize), MLP: mlp}
}

// Forward maps x [N,D] to [N,D].
func (b *preNorm) Forward(p *nn.Pass, x torch.Tensor) torch.Tensor {
	y, x := b.AttnNorm.ForwardResidual(x)
	y, x = b.MLPNorm.ForwardResidual(p.Residual(x, b.Attn, y))
	return p.Residual(x, b.MLP, y)
}

func (c *Config) norm(dim int) nn.RMSNorm { return nn.RMSNorm{Dim: dim, Eps: c.RMSNormEps} }

// attention declares full attention with grouped queries. If bias is true,
// the projections of queries, keys and values have biases.
func (c *Config) attention(bias bool) *nn.Attention {
	q, kv := c.NumAttentionHeads*c.HeadDim, c.NumKeyValueHeads*c.HeadDim
	return &nn.Attention{
		QProj: nn.NewLinear(c.HiddenSize, q, bias), KProj: nn.NewLinear(c.HiddenSize, kv, bias),
		VProj: nn.NewLinear(c.HiddenSize, kv, bias), OProj: nn.NewLinear(q, c.HiddenSize, false),
		HeadDim: c.HeadDim,
	}
}

// swiGLU declares the dense gated feed-forward block.
func (c *Config) swiGLU() *nn.SwiGLU {
	return &nn.SwiGLU{
		GateProj: nn.NewLinear(c.HiddenSize, c.IntermediateSize, false),
		UpProj:   nn.NewLinear(c.HiddenSize, c.IntermediateSize, false),
		DownProj: nn.NewLinear(c.IntermediateSize, c.HiddenSize, false),
	}
}
