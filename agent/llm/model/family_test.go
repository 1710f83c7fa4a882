package model

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/nn"
)

// scaled has the hyper-parameters of a test family: llama with scaled residual
// branches, and without attention in the last blocks.
type scaled struct {
	attn  int     // blocks with attention
	scale float64 // factor of the residual branches
}

func (e *scaled) Settings() []Setting {
	return []Setting{{"attention_layers", "attention_layers", &e.attn, maxLayers}, {"residual_multiplier", "residual_scale", &e.scale, 0}}
}

type scaledBlock struct {
	Attn *nn.Attention `hf:"attn"`
	MLP  nn.SwiGLU     `hf:"mlp"`

	scale float64
}

func (b *scaledBlock) Forward(p *nn.Pass, x torch.Tensor) torch.Tensor {
	if b.Attn != nil {
		x = x.Add(b.Attn.Forward(p, x).MulScalar(b.scale))
	}
	return x.Add(b.MLP.Forward(p, x).MulScalar(b.scale))
}

func TestFamilyWithExtraSettings(t *testing.T) {
	all := families
	defer func() { families = all }()
	families = registry.New[family]("model_type")
	families.Register("scaled", family{
		class: "ScaledForCausalLM",
		block: func(c *Config, i int) nn.Layer {
			e := c.Extra.(*scaled)
			b := &scaledBlock{MLP: *c.swiGLU(), scale: e.scale}
			if i < e.attn {
				b.Attn = c.attention(true)
			}
			return b
		},
		extra: func() Extra { return &scaled{} },
	})
	c, err := ParseConfig([]byte(`{"model_type": "scaled", "architectures": ["ScaledForCausalLM"], "vocab_size": 64, "hidden_size": 8,
		"intermediate_size": 12, "num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 64,
		"tie_word_embeddings": true, "attention_layers": 2, "residual_multiplier": 0.25}`))
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.JSON("float32")
	if err != nil {
		t.Fatal(err)
	}
	reparsed, err := ParseConfig(b)
	if err != nil {
		t.Fatal(err)
	}
	if e := reparsed.Extra.(*scaled); e.attn != 2 || e.scale != .25 {
		t.Errorf("after a write and a read the configuration is %+v", e)
	}
	reparsed.Extra = nil
	if _, err := reparsed.NumParameters(); err == nil {
		t.Error("a configuration without the family's settings is valid")
	}
	m, err := New(t.Context(), newThread(t), c, 1, torch.Float32)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var names []string
	for _, w := range m.declared.weights {
		if strings.HasPrefix(w.gguf, "blk.1.") || strings.HasPrefix(w.gguf, "blk.2.") {
			names = append(names, w.name+" "+w.gguf)
		}
	}
	want := []string{
		"model.layers.1.attn.q_proj.weight blk.1.attn_q.weight", "model.layers.1.attn.q_proj.bias blk.1.attn_q.bias",
		"model.layers.1.attn.k_proj.weight blk.1.attn_k.weight", "model.layers.1.attn.k_proj.bias blk.1.attn_k.bias",
		"model.layers.1.attn.v_proj.weight blk.1.attn_v.weight", "model.layers.1.attn.v_proj.bias blk.1.attn_v.bias",
		"model.layers.1.attn.o_proj.weight blk.1.attn_output.weight", "model.layers.1.mlp.gate_proj.weight blk.1.ffn_gate.weight",
		"model.layers.1.mlp.up_proj.weight blk.1.ffn_up.weight", "model.layers.1.mlp.down_proj.weight blk.1.ffn_down.weight",
		"model.layers.2.mlp.gate_proj.weight blk.2.ffn_gate.weight", "model.layers.2.mlp.up_proj.weight blk.2.ffn_up.weight",
		"model.layers.2.mlp.down_proj.weight blk.2.ffn_down.weight",
	}
	if d := cmp.Diff(want, names); d != "" {
		t.Errorf("weights (-want +got)\n%s", d)
	}
	// Query and output weights are 8x8, key and value weights 4x8; every block has three 12x8 MLP matrices.
	if cost := m.Cost(); cost != (Cost{Linear: 2*(2*64+2*32) + 3*3*96, Attention: 2 * 8}) {
		t.Errorf("Cost: got %+v", cost)
	}
}
