package model

// The declaration of a model: the parameters, linear layers and FLOPs that its
// structs and their tags describe.

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/nn"
)

// weight is one parameter: its names in Hugging Face checkpoints and in GGUF
// files, the field that holds it, and its declaration. Loading, saving, random
// initialisation, copies and hashing all use the same list.
type weight struct {
	name   string
	gguf   string
	field  *torch.Tensor
	shape  []int
	init   nn.Init
	rotary bool // RoPE rotates the output of the projection
}

// linear is a linear layer of a block and the name of the layer in the checkpoint.
type linear struct {
	name string
	l    *nn.Linear
}

// short returns the last part of the name, such as q_proj.
func (l linear) short() string { return l.name[strings.LastIndexByte(l.name, '.')+1:] }

// declaration is everything that the structs of a model declare, in the order
// of their fields.
type declaration struct {
	weights   []weight
	linears   []linear       // linear layers of the blocks
	adjacent  [][]*nn.Linear // groups of layers of the same input
	attention int            // query width Hq·Dh, summed over the attention layers of all blocks
}

// declare lists the declarations of m. Tied embeddings are one weight.
func (m *Model) declare() declaration {
	d := declaration{}
	d.add(&m.EmbedTokens, "model.embed_tokens", "token_embd")
	for i, block := range m.Layers {
		d.add(block, fmt.Sprintf("model.layers.%d", i), fmt.Sprintf("blk.%d", i))
	}
	blocks := len(d.linears)
	d.add(&m.Norm, "model.norm", "output_norm")
	switch {
	case m.Config.Labels > 0:
		d.add(&m.Score, "score", "")
	case !m.Config.TieWordEmbeddings:
		d.add(&m.LMHead, "lm_head", "output")
	}
	d.linears = d.linears[:blocks]
	return d
}

// add declares a layer, which is a pointer to a struct, and the layers in its
// tagged fields. tag is the layer's GGUF name with its options.
func (d *declaration) add(layer any, name, tag string) {
	gguf, option, _ := strings.Cut(tag, ",")
	if l, ok := layer.(*nn.Linear); ok {
		d.linears = append(d.linears, linear{name, l})
	}
	if a, ok := layer.(interface{ Adjacent() []*nn.Linear }); ok {
		d.adjacent = append(d.adjacent, a.Adjacent())
	}
	if a, ok := layer.(interface{ QueryWidth() int }); ok {
		d.attention += a.QueryWidth()
	}
	if l, ok := layer.(interface{ Params() []nn.Param }); ok {
		for _, p := range l.Params() {
			d.weights = append(d.weights, weight{name + "." + p.Name, gguf + "." + p.Name, p.Tensor, p.Shape, p.Init, option == "rotary"})
		}
		return
	}
	v := reflect.ValueOf(layer).Elem()
	for i := range v.NumField() {
		tags := v.Type().Field(i).Tag
		hf, ok := tags.Lookup("hf")
		if !ok {
			continue
		}
		field := v.Field(i)
		if field.Kind() == reflect.Struct {
			field = field.Addr()
		}
		if !field.IsNil() {
			d.add(field.Interface(), name+"."+hf, strings.TrimSuffix(gguf+"."+tags.Get("gguf"), "."))
		}
	}
}

// newDecoder declares a model without weights.
func newDecoder(c Config) (*Model, error) {
	f, err := lookupFamily(c.ModelType)
	if err != nil {
		return nil, err
	}
	if c.Extra == nil {
		c.Extra = f.newExtra()
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("model configuration: %w", err)
	}
	m := &Model{
		Config:      c,
		EmbedTokens: nn.Embedding{Rows: c.VocabSize, Dim: c.HiddenSize},
		Layers:      make([]nn.Layer, c.NumHiddenLayers),
		Norm:        c.norm(c.HiddenSize),
		LMHead:      nn.NewLinear(c.HiddenSize, c.VocabSize, false),
		Score:       nn.NewLinear(c.HiddenSize, c.Labels, false),
		rope:        c.rope(),
		family:      f,
	}
	for i := range m.Layers {
		m.Layers[i] = f.block(&c, i)
	}
	m.declared = m.declare()
	return m, nil
}

// Cost holds the sizes of a decoder's blocks from which the FLOPs are computed.
type Cost struct {
	Linear    int // number of weights of the linear layers; each weight costs one multiplication per token
	Attention int // width of the queries, Hq·Dh, summed over the layers
}

// Cost returns the cost of the blocks without adapters.
func (m *Model) Cost() Cost {
	c := Cost{Attention: m.declared.attention}
	for _, l := range m.declared.linears {
		c.Linear += l.l.In * l.l.Out
	}
	return c
}

// NumParameters returns the number of parameters, tied ones counted once.
func (c *Config) NumParameters() (int, error) {
	m, err := newDecoder(*c)
	if err != nil {
		return 0, err
	}
	total := 0
	for _, w := range m.declared.weights {
		n := 1
		for _, d := range w.shape {
			n *= d
		}
		total += n
	}
	return total, nil
}
