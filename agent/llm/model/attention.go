package model

import "github.com/openmanus/openmanus/torch/nn"

// newAttention lays out a family's attention without weights.
func newAttention(c *Config) nn.Attention {
	return nn.Attention{
		QNorm: nn.RMSNorm{Eps: c.RMSNormEps}, KNorm: nn.RMSNorm{Eps: c.RMSNormEps}, // used where they have weights
		HeadDim: c.HeadDim,
	}
}

// attentionWeights lists the parameters under their names inside self_attn.
// This is what the families differ in.
func attentionWeights(a *nn.Attention, c *Config) []weight {
	f := familyOf(c.ModelType)
	q, kv := c.queryWidth(), c.keyWidth()
	var list []weight
	project := func(name string, l *nn.Linear, width int) {
		list = append(list, weight{name + ".weight", &l.Weight, []int{width, c.HiddenSize}})
		if f.qkvBias {
			list = append(list, weight{name + ".bias", &l.Bias, []int{width}})
		}
	}
	project("q_proj", &a.QProj, q)
	project("k_proj", &a.KProj, kv)
	project("v_proj", &a.VProj, kv)
	list = append(list, weight{"o_proj.weight", &a.OProj.Weight, []int{c.HiddenSize, q}})
	if f.headNorm {
		list = append(list,
			weight{"q_norm.weight", &a.QNorm.Weight, []int{c.HeadDim}},
			weight{"k_norm.weight", &a.KNorm.Weight, []int{c.HeadDim}})
	}
	return list
}

func (c *Config) queryWidth() int { return c.NumAttentionHeads * c.HeadDim }
func (c *Config) keyWidth() int   { return c.NumKeyValueHeads * c.HeadDim }
