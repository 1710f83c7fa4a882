package model

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/nn"
	"github.com/openmanus/openmanus/torch/store"
)

const headName = "lm_head.weight"

// Param is a parameter and its name in a Hugging Face checkpoint.
type Param = store.Param

// Params returns every parameter once, tied ones under the embedding's name, in
// a fixed order. The tensors of weights that are sharded and not gathered are none.
func (m *Model) Params() []Param {
	var list []Param
	for _, w := range m.declared.weights {
		list = append(list, Param{Name: w.name, Tensor: *w.field})
	}
	return list
}

// SetTrainable switches the gradients of the trained parameters on or off.
func (m *Model) SetTrainable(on bool) {
	if units := m.TrainedUnits(); units != nil {
		for _, u := range units {
			u.SetTrainable(on)
		}
		return
	}
	for _, p := range m.Trained() {
		p.Tensor.SetRequiresGrad(on)
	}
}

// loaded loads a deferred model, or closes it after an error. m may be nil if err is not.
func loaded(ctx context.Context, m *Model, err error) (*Model, error) {
	if err != nil {
		return nil, err
	}
	if err := m.Load(ctx); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// adjoin moves the weights of layers of the same input on a GPU next to each other, and likewise their biases, so that one
// product computes the layers (torch.Linears).
func (m *Model) adjoin(s *torch.Scope) {
	if m.thread.Device().IsCPU() {
		return
	}
	for _, group := range m.declared.adjacent {
		var weights, biases []*torch.Tensor
		for _, l := range group {
			weights, biases = append(weights, &l.Weight), append(biases, &l.Bias)
		}
		for _, fields := range [][]*torch.Tensor{weights, biases} {
			s.Do(func(s *torch.Scope) { s.NoGrad(func() { m.adjoinTensors(fields) }) })
		}
	}
}

// adjoinTensors replaces tensors by parts of one new tensor with their values. It changes nothing if one is missing.
func (m *Model) adjoinTensors(fields []*torch.Tensor) {
	var list []torch.Tensor
	for _, f := range fields {
		if f.None() {
			return
		}
		list = append(list, *f)
	}
	all, at := torch.Cat(list, 0), 0
	for _, f := range fields {
		old := *f
		part := all.Narrow(0, at, old.Size(0))
		part.SetRequiresGrad(old.RequiresGrad())
		m.owner.Own(part)
		m.owner.Release(old)
		*f, at = part, at+part.Size(0)
	}
}

// tie makes the output head share the embedding's weight if
// tie_word_embeddings is set.
func (m *Model) tie() {
	if m.Config.TieWordEmbeddings {
		m.LMHead.Weight = m.EmbedTokens.Weight
	}
}

// New makes a model with random weights as transformers does: normal with
// standard deviation initializer_range, norms 1, biases 0. Equal seeds give
// equal weights.
func New(ctx context.Context, t *torch.Thread, c Config, seed uint64, dt torch.DType) (*Model, error) {
	m, err := NewDeferred(t, c, seed, dt)
	return loaded(ctx, m, err)
}

// NewDeferred returns the model of New as a deferred one; see Options.Deferred.
func NewDeferred(t *torch.Thread, c Config, seed uint64, dt torch.DType) (*Model, error) {
	m, err := newDecoder(c)
	if err != nil {
		return nil, err
	}
	return m, m.postpone(t, dt, func(s *torch.Scope, i int, w weight) (torch.Tensor, error) {
		switch w.init {
		case nn.Ones:
			return s.Ones(torch.Float32, w.shape...), nil
		case nn.Zeros:
			return s.Zeros(torch.Float32, w.shape...), nil
		}
		return s.RandN(mix(seed, uint64(i)), w.shape...).MulScalar(c.InitializerRange), nil
	})
}

// mix returns the seed of the i-th weight. It applies the finaliser of
// SplitMix64 (Steele et al., OOPSLA 2014) to a Weyl sequence.
func mix(seed, i uint64) uint64 {
	z := seed + (i+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Hash returns "sha256:" and the hex digest of all parameters in the order of
// their names. Each is hashed as its checkpoint name, a zero byte, its dtype's
// name, a zero byte, the number of dimensions and the dimensions as
// little-endian uint64, and its elements, row-major and little-endian. Tied
// parameters are hashed once, adapters under PEFT's names. A checkpoint and its
// copy in another file format have the same hash if loaded in the same dtype. If
// the model is tensor parallel over several ranks, all ranks call Hash, and get the hash of the
// whole model.
func (m *Model) Hash(ctx context.Context) (string, error) {
	type named struct {
		name  string
		value func(s *torch.Scope) torch.Tensor
	}
	var params []named
	for i, w := range m.declared.weights {
		params = append(params, named{w.name, func(s *torch.Scope) torch.Tensor {
			return m.whole(Param{Name: w.name, Tensor: m.value(s, i)}).To(m.dtype)
		}})
	}
	for _, p := range m.Adapters() {
		params = append(params, named{p.Name, func(*torch.Scope) torch.Tensor { return m.whole(p) }})
	}
	slices.SortFunc(params, func(a, b named) int { return cmp.Compare(a.name, b.name) })
	h := sha256.New()
	number := func(n int) {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(n)))
	}
	for _, p := range params {
		var data []byte
		var shape []int
		var dt torch.DType
		err := torch.Run(ctx, m.thread, func(s *torch.Scope) error {
			s.NoGrad(func() {
				v := p.value(s)
				shape, dt, data = v.Shape(), v.DType(), v.ToBytes()
			})
			return nil
		})
		if err != nil {
			return "", err
		}
		h.Write([]byte(p.name + "\x00" + dt.String() + "\x00"))
		number(len(shape))
		for _, d := range shape {
			number(d)
		}
		h.Write(data)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}
