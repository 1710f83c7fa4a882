package model

import (
	"fmt"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/nn"
	"github.com/openmanus/openmanus/torch/shard"
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
	lora     *adapters // nil: all weights are trained
	cut      *cut      // nil: this rank has the whole model

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
	if s.GradEnabled() {
		m.mustBeWhole("Forward")
	}
	p := m.newPass(s, positions)
	p.Offsets = offsets
	if (m.checkpointing || m.divided() && m.sharded.o.Level == shard.Weights) && s.GradEnabled() {
		return m.forwardCheckpointed(s, ids, &p)
	}
	return m.run(s, ids, func(int) *nn.Pass { return &p })
}

// newPass starts a pass over tokens at positions.
func (m *Model) newPass(s *torch.Scope, positions []int32) (p nn.Pass) {
	p.Cos, p.Sin = m.rope.Angles(s, positions)
	if m.cut != nil {
		m.cut.begin(&p)
	}
	return p
}

// DecodeBatch holds the new tokens of several cached sequences, packed one
// sequence after another.
type DecodeBatch struct {
	IDs       []int32
	Positions []int32
	Slots     []int64          // the cache slot for each token's key and value
	Seqs      torch.CachedSeqs // how the tokens divide into sequences, with context lengths and blocks
	Outputs   []int64          // tokens whose hidden states are returned
}

// Decode appends tokens to cached sequences and returns the hidden states
// [len(Outputs),D] after the last norm, or the zero Tensor if Outputs is
// empty. It records nothing for gradients.
func (m *Model) Decode(s *torch.Scope, c *Cache, b DecodeBatch) (hidden torch.Tensor) {
	s.NoGrad(func() {
		p := m.newPass(s, b.Positions)
		hidden = m.run(s, b.IDs, func(i int) *nn.Pass {
			p.KV = &nn.KV{K: c.K[i], V: c.V[i], Slots: b.Slots, Seqs: b.Seqs}
			return &p
		})
		switch {
		case len(b.Outputs) == 0:
			hidden = torch.Tensor{}
		case len(b.Outputs) < len(b.IDs):
			hidden = hidden.IndexSelect(0, s.Int64s(b.Outputs, len(b.Outputs)))
		}
	})
	return hidden
}

// run applies the decoder; pass(i) returns the pass for block i.
func (m *Model) run(s *torch.Scope, ids []int32, pass func(i int) *nn.Pass) torch.Tensor {
	var x torch.Tensor
	m.using(s, embedding, func() { x = m.embed(s, ids) })
	for i, block := range m.Layers {
		m.using(s, layer(i), func() {
			s.Do(func(s *torch.Scope) {
				x = block.Forward(pass(i), x)
				s.Keep(x)
			})
		})
	}
	if m.cut != nil {
		m.cut.end()
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
// and the log-prob of a sampled token by as much. If the model is cut over several
// ranks, all ranks call Logits and get all logits.
func (m *Model) Logits(hidden torch.Tensor) torch.Tensor {
	m.holdHead()
	logits := m.headLogits(hidden)
	if m.cut != nil {
		logits = m.cut.logits(logits, m.Config.VocabSize)
	}
	return logits
}

// headLogits returns the logits of this rank's part of the head.
func (m *Model) headLogits(hidden torch.Tensor) torch.Tensor {
	if !hidden.Device().IsCPU() {
		return torch.Logits(hidden, m.LMHead.Weight, m.LMHead.Bias)
	}
	rows := hidden.Size(0)
	if rows > torch.SkinnyRows && m.dtype != torch.BFloat16 {
		return m.LMHead.Forward(hidden)
	}
	if m.dtype == torch.BFloat16 {
		hidden = hidden.To(torch.Float32)
	}
	var parts []torch.Tensor
	for at := 0; at < rows; at += torch.SkinnyRows {
		x := hidden.Narrow(0, at, min(torch.SkinnyRows, rows-at))
		parts = append(parts, m.LMHead.Infer(x))
	}
	return torch.Cat(parts, 0)
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
