package model

import (
	"fmt"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/nn"
)

// Model is a decoder-only language model. Its fields are the checkpoint's:
// what transformers calls model.layers.3.mlp.up_proj.weight is
// Layers[3].MLP.UpProj.Weight.
type Model struct {
	Config Config

	EmbedTokens nn.Embedding // model.embed_tokens
	Layers      []Layer      // model.layers
	Norm        nn.RMSNorm   // model.norm
	LMHead      nn.Linear    // lm_head; of tied embeddings its weight is EmbedTokens.Weight
	Score       nn.Linear    // score; of a sequence classifier, which has no lm_head

	rope   nn.RoPE
	thread *torch.Thread
	owner  *torch.Owner
	dtype  torch.DType
	lora   *adapters // nil: every weight is trained

	checkpointing bool
	tapes         []*tape // of forward passes that Backward has not done yet
}

// Layer is one block of the decoder: attention and a gated MLP, each behind a
// norm and added to the residual stream.
type Layer struct {
	InputLayerNorm         nn.RMSNorm   // input_layernorm
	SelfAttn               nn.Attention // self_attn
	PostAttentionLayerNorm nn.RMSNorm   // post_attention_layernorm
	MLP                    nn.SwiGLU    // mlp
}

// newDecoder lays out a model without weights.
func newDecoder(c Config) (*Model, error) {
	if !known(c.ModelType) {
		return nil, unknownModelType(c.ModelType)
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("model configuration: %w", err)
	}
	m := &Model{
		Config: c,
		Layers: make([]Layer, c.NumHiddenLayers),
		Norm:   nn.RMSNorm{Eps: c.RMSNormEps},
		rope:   c.rope(),
	}
	for i := range m.Layers {
		m.Layers[i] = Layer{
			InputLayerNorm:         nn.RMSNorm{Eps: c.RMSNormEps},
			SelfAttn:               newAttention(&c),
			PostAttentionLayerNorm: nn.RMSNorm{Eps: c.RMSNormEps},
		}
	}
	return m, nil
}

// Forward returns the hidden states [N,D] of packed sequences after the last
// norm, differentiable. Sequence i is ids[offsets[i]:offsets[i+1]]; its tokens
// see only those before them in the same sequence.
func (m *Model) Forward(s *torch.Scope, ids, positions []int32, offsets []int) torch.Tensor {
	cos, sin := m.rope.Angles(s, positions)
	layer := func(l *Layer, x torch.Tensor) torch.Tensor {
		x = x.Add(l.SelfAttn.Forward(l.InputLayerNorm.Forward(x), cos, sin, offsets))
		return x.Add(l.MLP.Forward(l.PostAttentionLayerNorm.Forward(x)))
	}
	if m.checkpointing && s.GradEnabled() {
		return m.forwardChecked(s, ids, layer)
	}
	return m.run(s, ids, func(_ int, l *Layer, x torch.Tensor) torch.Tensor { return layer(l, x) })
}

// DecodeBatch is one call's work on a cache: the new tokens of several
// sequences, packed one sequence after another.
type DecodeBatch struct {
	IDs       []int32
	Positions []int32
	Slots     []int64          // where in the cache each token's key and value go
	Seqs      torch.CachedSeqs // the sequences' share of the tokens, their context lengths and blocks
	Outputs   []int            // which of the tokens' hidden states are wanted
}

// Decode appends tokens to cached sequences and returns the hidden states
// [len(Outputs),D] after the last norm, or none where no output is wanted. It
// records nothing for gradients.
func (m *Model) Decode(s *torch.Scope, c *Cache, b DecodeBatch) (hidden torch.Tensor) {
	s.NoGrad(func() {
		cos, sin := m.rope.Angles(s, b.Positions)
		hidden = m.run(s, b.IDs, func(i int, l *Layer, x torch.Tensor) torch.Tensor {
			x = x.Add(l.SelfAttn.Decode(l.InputLayerNorm.Forward(x), cos, sin, c.K[i], c.V[i], b.Slots, b.Seqs))
			return x.Add(l.MLP.Infer(l.PostAttentionLayerNorm.Forward(x)))
		})
		switch {
		case len(b.Outputs) == 0:
			hidden = torch.Tensor{}
		case len(b.Outputs) < len(b.IDs):
			rows := make([]int64, len(b.Outputs))
			for i, r := range b.Outputs {
				rows[i] = int64(r)
			}
			hidden = hidden.IndexSelect(0, s.Int64s(rows, len(rows)))
		}
	})
	return hidden
}

// run is the decoder itself; training and generation differ only in how a layer
// is applied.
func (m *Model) run(s *torch.Scope, ids []int32, layer func(i int, l *Layer, x torch.Tensor) torch.Tensor) torch.Tensor {
	x := m.EmbedTokens.Forward(s.Int32s(ids, len(ids)))
	for i := range m.Layers {
		s.Do(func(s *torch.Scope) {
			x = layer(i, &m.Layers[i], x)
			s.Keep(x)
		})
	}
	return m.Norm.Forward(x)
}

// Logits returns the scores [R,V] of every next token for hidden states [R,D],
// without gradients. They are float32 where the model computes in bfloat16, as
// in TokenLogProbs: rounded to bfloat16, a logit of 20 is off by up to 0.06, and
// so would be the log-prob of a sampled token.
func (m *Model) Logits(hidden torch.Tensor) torch.Tensor {
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
		parts = append(parts, nn.Infer(x, &m.LMHead)...)
	}
	return torch.Cat(parts, 0)
}

// TokenLogProbs returns log softmax(logits/T)[target] [N] for hidden states
// [N,D] and, if asked, the entropy [N], without holding all logits at once.
// Rows with a negative target give 0 and no gradient.
func (m *Model) TokenLogProbs(hidden torch.Tensor, targets []int64, temperature float64, wantEntropy bool) (logp, entropy torch.Tensor) {
	return torch.TokenLogProbs(hidden, m.LMHead.Weight, m.LMHead.Bias, targets, temperature, wantEntropy)
}

// TokenLogProbsAmong is TokenLogProbs with the softmax of row i over the tokens
// kept[i] alone; over all tokens where that is empty, or kept nil.
func (m *Model) TokenLogProbsAmong(hidden torch.Tensor, targets []int64, kept [][]int32, temperature float64, wantEntropy bool) (logp, entropy torch.Tensor) {
	return torch.TokenLogProbsAmong(hidden, m.LMHead.Weight, m.LMHead.Bias, targets, kept, temperature, wantEntropy)
}

// Thread returns the thread that the model belongs to.
func (m *Model) Thread() *torch.Thread { return m.thread }

// DType returns the type of the weights, in which Forward computes.
func (m *Model) DType() torch.DType { return m.dtype }

// Close frees the weights.
func (m *Model) Close() {
	if m.lora != nil {
		m.dropLoRA()
	}
	if m.owner != nil {
		m.owner.Close()
	}
}

// Pack lays sequences one after another for Forward.
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

// CheckIDs reports a token that the vocabulary lacks or a sequence longer than
// the positions the model was made for.
func (c *Config) CheckIDs(ids []int32) error {
	if len(ids) > c.MaxPositionEmbeddings {
		return fmt.Errorf("%d tokens are more than the model's %d positions (max_position_embeddings)", len(ids), c.MaxPositionEmbeddings)
	}
	for i, id := range ids {
		if id < 0 || int(id) >= c.VocabSize {
			return fmt.Errorf("token %d has id %d, the vocabulary has %d", i, id, c.VocabSize)
		}
	}
	return nil
}
