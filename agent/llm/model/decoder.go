package model

import (
	"fmt"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/nn"
)

// Model is a decoder-only language model.
type Model struct {
	Config Config

	EmbedTokens nn.Embedding // model.embed_tokens
	Layers      []nn.Layer   // model.layers: each is one block of the family
	Norm        nn.RMSNorm   // model.norm
	LMHead      nn.Linear    // lm_head; its weight is EmbedTokens.Weight in models that tie them
	Score       nn.Linear    // score; only in sequence classifiers, which have no lm_head

	family   family
	declared declaration
	rope     nn.RoPE
	thread   *torch.Thread
	owner    *torch.Owner // nil in a view of another model (Base, Frozen)
	dtype    torch.DType
	lora     *adapters       // nil: all weights are trained
	tp       *tensorParallel // nil: this rank has the whole model
	deferred *deferred       // nil: the weights have been read
	int8     *torch.Owner    // of the int8 copies (QuantizeInt8); nil: none

	checkpointing bool
	tapes         []*tape // state of the forward passes that Backward has not processed yet

	sharded *sharding    // nil: this process has all weights
	held    []int        // units that are gathered until the end of the pass
	scope   *torch.Scope // scope of the pass
	unbind  func()       // ends a view's sharing of units; nil: none
}

// Forward returns the hidden states [N,D] of packed sequences after the last
// norm, differentiable. Sequence i is ids[offsets[i]:offsets[i+1]]; its tokens
// attend only to earlier tokens of the same sequence.
func (m *Model) Forward(s *torch.Scope, ids, positions []int32, offsets []int) torch.Tensor {
	return m.forward(s, ids, positions, offsets, nil)
}

// forward is Forward of sequences that continue their parents, see nn.Pass.
func (m *Model) forward(s *torch.Scope, ids, positions []int32, offsets, parents []int) torch.Tensor {
	if s.GradEnabled() {
		m.mustBeWhole("Forward")
	}
	p := m.newPass(s, positions)
	p.Offsets, p.Parents = offsets, parents
	if s.GradEnabled() && (m.recomputes() || m.SumsLayers()) {
		return m.forwardByLayer(s, ids, &p)
	}
	return m.run(s, func() torch.Tensor { return m.embed(s, ids) }, func(int) *nn.Pass { return &p })
}

// newPass starts a pass over tokens at positions.
func (m *Model) newPass(s *torch.Scope, positions []int32) (p nn.Pass) {
	p.Cos, p.Sin = m.rope.Angles(s, positions)
	m.begin(&p)
	return p
}

// begin makes a pass sum over the ranks of a tensor-parallel model.
func (m *Model) begin(p *nn.Pass) {
	if m.tp != nil {
		m.tp.begin(p)
	}
}

// DecodeBatch holds the new tokens of several cached sequences, packed one
// sequence after another.
type DecodeBatch = torch.Step

// Decode appends tokens to cached sequences and returns the hidden states
// [len(Outputs),D] after the last norm, or the zero Tensor if Outputs is
// empty. It records nothing for gradients.
func (m *Model) Decode(s *torch.Scope, c *Cache, b DecodeBatch) torch.Tensor {
	return m.decode(s, c, b, c.upload(s, b))
}

// Sample appends tokens to cached sequences, as Decode does, and draws one token for each of b.Draws from the logits
// [len(b.Draws),V]; see torch.Sample. Without draws it returns nothing. On a GPU it waits once, for the drawn tokens.
func (m *Model) Sample(s *torch.Scope, c *Cache, b DecodeBatch) (logits torch.Tensor, ids []int32, logps []float32, kept [][]int32) {
	s.NoGrad(func() {
		step := c.upload(s, b)
		hidden := m.decode(s, c, b, step)
		if len(b.Draws) == 0 {
			return
		}
		logits = m.Logits(hidden)
		if step != nil && torch.HasKernels(logits) {
			ids, logps, kept = step.Draw(logits).Get()
		} else {
			ids, logps, kept = torch.Sample(logits, b.Draws)
		}
	})
	return logits, ids, logps, kept
}

// decode is Decode of a batch that was uploaded as step, or nil on a device without kernels.
func (m *Model) decode(s *torch.Scope, c *Cache, b DecodeBatch, step *torch.DeviceStep) (hidden torch.Tensor) {
	s.NoGrad(func() {
		var p nn.Pass
		if step != nil {
			p.Cos, p.Sin = c.cos, c.sin
			m.begin(&p)
		} else {
			p = m.newPass(s, b.Positions)
		}
		embed := func() torch.Tensor {
			if step != nil && m.tp == nil {
				return m.EmbedTokens.Forward(step.IDs)
			}
			return m.embed(s, b.IDs)
		}
		hidden = m.run(s, embed, func(i int) *nn.Pass {
			p.KV = &nn.KV{K: c.K[i], V: c.V[i], Slots: b.Slots, Seqs: b.Seqs, Step: step}
			return &p
		})
		switch {
		case len(b.Outputs) == 0:
			hidden = torch.Tensor{}
		case len(b.Outputs) == len(b.IDs):
		case step != nil:
			hidden = hidden.IndexSelect(0, step.Outputs)
		default:
			hidden = hidden.IndexSelect(0, s.Int64s(b.Outputs, len(b.Outputs)))
		}
	})
	return hidden
}

// run applies the decoder to the states that embed returns; pass(i) returns the pass for block i.
func (m *Model) run(s *torch.Scope, embed func() torch.Tensor, pass func(i int) *nn.Pass) torch.Tensor {
	var x torch.Tensor
	m.using(s, embedding, func() { x = embed() })
	for i, block := range m.Layers {
		m.using(s, layer(i), func() {
			s.Do(func(s *torch.Scope) {
				x = block.Forward(pass(i), x)
				s.Keep(x)
			})
		})
	}
	if m.tp != nil {
		m.tp.end()
	}
	m.holdNorm(s)
	return m.Norm.Forward(x)
}

// AllLogits returns the logits [R,V] of the next token for hidden states [R,D], in the
// dtype of the model, differentiable.
func (m *Model) AllLogits(hidden torch.Tensor) torch.Tensor {
	m.holdHead()
	return m.LMHead.Forward(hidden)
}

// Logits returns the logits [R,V] of the next token for hidden states [R,D],
// without gradients. A bfloat16 model gives float32 logits, as in
// TokenLogProbs: rounding a logit of 20 to bfloat16 changes it by up to 0.06,
// and the log-prob of a sampled token by as much. If the model is tensor parallel over several
// ranks, all ranks call Logits and get all logits.
func (m *Model) Logits(hidden torch.Tensor) torch.Tensor {
	m.holdHead()
	logits := m.headLogits(hidden)
	if m.tp != nil {
		logits = m.tp.logits(logits, m.Config.VocabSize)
	}
	return logits
}

// headLogits returns the logits of this rank's part of the head.
func (m *Model) headLogits(hidden torch.Tensor) torch.Tensor {
	if m.LMHead.Int8 != nil {
		return m.LMHead.Infer(hidden.To(torch.Float32))
	}
	if !hidden.Device().IsCPU() || m.dtype == torch.BFloat16 {
		return torch.Logits(hidden, m.LMHead.Weight, m.LMHead.Bias)
	}
	rows := hidden.Size(0)
	if rows > torch.SkinnyRows {
		return m.LMHead.Forward(hidden)
	}
	return m.LMHead.Infer(hidden)
}

// TokenLogProbs returns log softmax(logits/T)[target] [N] for hidden states
// [N,D] and, with wantEntropy, the entropy [N], without holding all logits at once.
// Rows with a negative target give 0 and no gradient. The softmax of row i is
// over the tokens kept[i]; an empty kept[i], or a nil kept, means all tokens.
func (m *Model) TokenLogProbs(hidden torch.Tensor, targets []int64, kept [][]int32, temperature float64, wantEntropy bool) (logp, entropy torch.Tensor) {
	m.mustBeWhole("TokenLogProbs")
	m.holdHead()
	return torch.TokenLogProbs(hidden, m.LMHead.Weight, m.LMHead.Bias, targets, kept, temperature, wantEntropy)
}

// Thread returns the thread that the model belongs to.
func (m *Model) Thread() *torch.Thread { return m.thread }

// DType returns the type of the weights, in which Forward computes.
func (m *Model) DType() torch.DType { return m.dtype }

// Close frees the weights and the adapters.
func (m *Model) Close() {
	m.endDeferral()
	m.DropInt8()
	switch {
	case m.unbind != nil:
		m.unbind()
	case m.sharded != nil:
		for _, u := range m.sharded.units {
			u.Close()
		}
		if m.sharded.adapters != nil {
			m.sharded.adapters.Close()
		}
	}
	if m.lora != nil {
		m.dropLoRA()
	}
	if m.owner != nil {
		m.owner.Close()
	}
}

// Pack concatenates sequences for Forward.
func Pack(seqs ...[]int32) (ids, positions []int32, offsets []int) {
	offsets = []int{0}
	for _, seq := range seqs {
		for p, id := range seq {
			ids = append(ids, id)
			positions = append(positions, int32(p))
		}
		offsets = append(offsets, len(ids))
	}
	return ids, positions, offsets
}

// CheckIDs returns an error if an id is outside the vocabulary or the sequence
// is longer than max_position_embeddings.
func (c *Config) CheckIDs(ids []int32) error {
	if len(ids) > c.MaxPositionEmbeddings {
		return fmt.Errorf("%d tokens are more than the model's %d positions (max_position_embeddings)", len(ids), c.MaxPositionEmbeddings)
	}
	for i, id := range ids {
		if id < 0 || int(id) >= c.VocabSize {
			return fmt.Errorf("token %d has id %d, the vocabulary has %d tokens", i, id, c.VocabSize)
		}
	}
	return nil
}
