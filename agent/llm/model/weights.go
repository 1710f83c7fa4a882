package model

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/torch"
)

// weight is one parameter: its name in a Hugging Face checkpoint, the field
// that holds it and its shape. Loading, saving, random initialisation, copies
// and hashing all go through this one list.
type weight struct {
	name  string
	field *torch.Tensor
	shape []int
}

func (w weight) numel() int {
	n := 1
	for _, d := range w.shape {
		n *= d
	}
	return n
}

func (w weight) isNorm() bool { return strings.HasSuffix(w.name, "norm.weight") }
func (w weight) isBias() bool { return strings.HasSuffix(w.name, ".bias") }

const (
	embedName = "model.embed_tokens.weight"
	headName  = "lm_head.weight"
	scoreName = "score.weight"
)

// weights lists every parameter once, in the order of the forward pass.
func (m *Model) weights() []weight {
	c := &m.Config
	list := []weight{{embedName, &m.EmbedTokens.Weight, []int{c.VocabSize, c.HiddenSize}}}
	for i := range m.Layers {
		for _, w := range m.Layers[i].weights(c) {
			w.name = fmt.Sprintf("model.layers.%d.%s", i, w.name)
			list = append(list, w)
		}
	}
	list = append(list, weight{"model.norm.weight", &m.Norm.Weight, []int{c.HiddenSize}})
	switch {
	case c.Labels > 0:
		list = append(list, weight{scoreName, &m.Score.Weight, []int{c.Labels, c.HiddenSize}})
	case !c.TieWordEmbeddings:
		list = append(list, weight{headName, &m.LMHead.Weight, []int{c.VocabSize, c.HiddenSize}})
	}
	return list
}

func (l *Layer) weights(c *Config) []weight {
	list := []weight{{"input_layernorm.weight", &l.InputLayerNorm.Weight, []int{c.HiddenSize}}}
	for _, w := range attentionWeights(&l.SelfAttn, c) {
		w.name = "self_attn." + w.name
		list = append(list, w)
	}
	return append(list,
		weight{"post_attention_layernorm.weight", &l.PostAttentionLayerNorm.Weight, []int{c.HiddenSize}},
		weight{"mlp.gate_proj.weight", &l.MLP.GateProj.Weight, []int{c.IntermediateSize, c.HiddenSize}},
		weight{"mlp.up_proj.weight", &l.MLP.UpProj.Weight, []int{c.IntermediateSize, c.HiddenSize}},
		weight{"mlp.down_proj.weight", &l.MLP.DownProj.Weight, []int{c.HiddenSize, c.IntermediateSize}},
	)
}

// Param is a parameter under its name in a Hugging Face checkpoint.
type Param struct {
	Name   string
	Tensor torch.Tensor
}

// Params returns every parameter once, tied ones under the embedding's name,
// always in the same order.
func (m *Model) Params() []Param {
	var list []Param
	for _, w := range m.weights() {
		list = append(list, Param{Name: w.name, Tensor: *w.field})
	}
	return list
}

// SetTrainable switches gradients of what training changes on or off.
func (m *Model) SetTrainable(on bool) {
	for _, p := range m.Trained() {
		p.Tensor.SetRequiresGrad(on)
	}
}

// build makes a model whose weights come from fill, one after another, and
// takes ownership of them.
func build(ctx context.Context, t *torch.Thread, c Config, dt torch.DType, fill func(*torch.Scope, int, weight) (torch.Tensor, error)) (*Model, error) {
	if dt != torch.Float32 && dt != torch.BFloat16 && dt != torch.Float64 {
		return nil, fmt.Errorf("a model cannot compute in %s; float32, bfloat16 and float64 are supported", dt)
	}
	m, err := newDecoder(c)
	if err != nil {
		return nil, err
	}
	m.thread, m.dtype, m.owner = t, dt, torch.NewOwner(t, "model")
	for i, w := range m.weights() {
		// One Run per weight: a long load can be cancelled between them.
		err := torch.Run(ctx, t, func(s *torch.Scope) error {
			v, err := fill(s, i, w)
			if err != nil {
				return err
			}
			if got := v.Shape(); !slices.Equal(got, w.shape) {
				return fmt.Errorf("tensor %s has shape %v, the configuration wants %v", w.name, got, w.shape)
			}
			*w.field = v.To(dt).Contiguous()
			m.owner.Own(*w.field)
			return nil
		})
		if err != nil {
			m.Close()
			return nil, err
		}
	}
	if c.TieWordEmbeddings {
		m.LMHead.Weight = m.EmbedTokens.Weight
	}
	return m, nil
}

// New makes a model with random weights: normal with standard deviation
// initializer_range, norms 1, biases 0 (transformers' own initialisation).
// Equal seeds give equal weights.
func New(ctx context.Context, t *torch.Thread, c Config, seed uint64, dt torch.DType) (*Model, error) {
	return build(ctx, t, c, dt, func(s *torch.Scope, i int, w weight) (torch.Tensor, error) {
		switch {
		case w.isNorm():
			return s.Ones(torch.Float32, w.shape...), nil
		case w.isBias():
			return s.Zeros(torch.Float32, w.shape...), nil
		}
		return s.RandN(mix(seed, uint64(i)), w.shape...).MulScalar(c.InitializerRange), nil
	})
}

// mix derives the seed of the i-th weight: the finaliser of SplitMix64 (Steele
// et al., OOPSLA 2014) over a Weyl sequence.
func mix(seed, i uint64) uint64 {
	z := seed + (i+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
