package learner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/algo/loss"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/nn"
	"github.com/openmanus/openmanus/torch/optim"
	"github.com/openmanus/openmanus/torch/safetensors"
	"github.com/openmanus/openmanus/torch/store"
)

// headScale is the standard deviation of a new head's weights.
const headScale = 0.02

// valueHead is a linear layer of one output on a decoder's states. It is float32 in
// any compute type but float64, which is for tests.
type valueHead struct {
	nn.Linear
	thread *torch.Thread
	owner  *torch.Owner
}

// newValueHead makes a head of random weights for the states of m.
func newValueHead(ctx context.Context, m *model.Model, seed uint64) (*valueHead, error) {
	h := &valueHead{thread: m.Thread(), owner: torch.NewOwner(m.Thread(), "critic head")}
	dt := torch.Float32
	if m.DType() == torch.Float64 {
		dt = torch.Float64
	}
	err := torch.Run(ctx, m.Thread(), func(s *torch.Scope) error {
		h.Weight = s.RandN(seed, 1, m.Config.HiddenSize).MulScalar(headScale).To(dt)
		h.Bias = s.Zeros(dt, 1)
		for _, w := range []torch.Tensor{h.Weight, h.Bias} {
			h.owner.Own(w)
			w.SetRequiresGrad(true)
		}
		return nil
	})
	if err != nil {
		h.owner.Close()
		return nil, err
	}
	return h, nil
}

func (h *valueHead) params() []optim.Param {
	return []optim.Param{{Name: headWeight, Tensor: h.Weight}, {Name: headBias, Tensor: h.Bias}}
}

// values returns the values [M] of states [M,D].
func (h *valueHead) values(hidden torch.Tensor) torch.Tensor {
	return h.Forward(hidden.To(h.Weight.DType())).Reshape(hidden.Size(0))
}

// loss returns the sum of the value losses of a micro-batch's tokens with the states
// hidden [M,D], and adds their statistics to st.
func (h *valueHead) loss(s *torch.Scope, p *packed, hidden torch.Tensor, clip float64, st *CriticStats) torch.Tensor {
	v := h.values(hidden)
	l, clipped := loss.Value(v, p.gather(s, values), p.gather(s, func(r *data.Row) *[]float32 { return &r.Returns }), clip)
	sum := l.Sum()
	p.laterAdd(sum, &st.Loss)
	p.laterAdd(clipped, &st.ClipFrac)
	p.laterAdd(v.Sum(), &st.Mean)
	return sum
}

// bytes returns the size of the weights.
func (h *valueHead) bytes() float64 {
	return float64(h.Weight.DType().Size() * (h.Weight.Numel() + h.Bias.Numel()))
}

func (h *valueHead) stored() []store.Param {
	return []store.Param{{Name: headWeight, Tensor: h.Weight}, {Name: headBias, Tensor: h.Bias}}
}

// save writes the head into a folder, which it creates if needed.
func (h *valueHead) save(ctx context.Context, dir string) error {
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = store.Save(ctx, h.thread, filepath.Join(dir, headFile), h.stored(), nil)
	}
	if err != nil {
		return fmt.Errorf("save the critic's head: %w", err)
	}
	return nil
}

// load restores the head from a folder.
func (h *valueHead) load(ctx context.Context, dir string) error {
	f, err := safetensors.Open(filepath.Join(dir, headFile))
	if err != nil {
		return fmt.Errorf("load the critic's head: %w", err)
	}
	defer func() { _ = f.Close() }()
	if err := store.Load(ctx, h.thread, f, h.stored(), false); err != nil {
		return fmt.Errorf("load the critic's head from %s: %w", f.Path(), err)
	}
	return nil
}
