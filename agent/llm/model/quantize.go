package model

import (
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/nn"
)

// QuantizeInt8 makes Decode, Sample and Logits read int8 copies of the weights of all linear layers, the output head included, or renews
// the copies after the weights have changed. The embedding, the norms, the biases and the adapters are not quantised. Forward and the
// log-probs of training read the weights. The model is whole and on the CPU; sharded weights are gathered. QuantizeInt8 runs inside
// torch.Run.
func (m *Model) QuantizeInt8(s *torch.Scope) {
	m.DropInt8()
	m.int8 = torch.NewOwner(m.thread, "int8 weights")
	layers := map[*torch.Tensor]*nn.Linear{&m.LMHead.Weight: &m.LMHead}
	for _, l := range m.declared.linears {
		layers[&l.l.Weight] = l.l
	}
	if m.Config.TieWordEmbeddings {
		layers[&m.EmbedTokens.Weight] = &m.LMHead
	}
	for i, w := range m.declared.weights {
		l := layers[w.field]
		if l == nil {
			continue
		}
		unit := embedding
		if m.weightsSharded() {
			unit = m.sharded.at[i].unit
		}
		m.using(s, unit, func() {
			q := torch.QuantizeInt8(*w.field)
			m.int8.Own(q.Values, q.Scales)
			l.Int8 = &q
		})
	}
}

// DropInt8 frees the int8 copies. Generation reads the weights again.
func (m *Model) DropInt8() {
	if m.int8 == nil {
		return
	}
	for _, l := range m.declared.linears {
		l.l.Int8 = nil
	}
	m.LMHead.Int8 = nil
	m.int8.Close()
	m.int8 = nil
}
