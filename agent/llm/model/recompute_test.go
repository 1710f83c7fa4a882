package model

import (
	"fmt"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/torch"
)

// checkedGrads returns a loss over two forward passes and its gradients.
func checkedGrads(t *testing.T, m *Model, batches ...[][]int32) (loss float64, grads map[string][]float64) {
	t.Helper()
	grads = map[string][]float64{}
	run(t, m.Thread(), func(s *torch.Scope) {
		m.SetTrainable(true)
		for _, batch := range batches {
			s.Do(func(s *torch.Scope) {
				ids, positions, offsets := Pack(batch...)
				logp, entropy := m.TokenLogProbs(m.Forward(s, ids, positions, offsets), NextTokens(ids, offsets), nil, 1, true)
				l := logp.Sum().Add(entropy.Square().Sum())
				loss += l.Item()
				m.Backward(s, l)
			})
		}
		for _, p := range m.Trained() {
			g := p.Tensor.Grad()
			if g.None() {
				t.Errorf("%s has no gradient", p.Name)
				continue
			}
			grads[p.Name] = g.ToFloat64s()
			p.Tensor.ZeroGrad()
		}
		m.SetTrainable(false)
	})
	return loss, grads
}

// TestGradientCheckpointing checks that the gradients of one backward pass are bit-identical with and without
// gradient checkpointing, for models with and without adapters, dropout and tied embeddings.
func TestGradientCheckpointing(t *testing.T) {
	th := newThread(t)
	for _, name := range tiny {
		for _, dt := range []torch.DType{torch.Float32, torch.BFloat16} {
			for _, lora := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s in %v, adapters %v", name, dt, lora), func(t *testing.T) {
					m := openTiny(t, th, name, dt)
					if lora {
						adapt(t, m, LoRA{Rank: 2, Alpha: 4, Dropout: .2, Targets: []string{"q_proj", "down_proj"}})
						m.SetDropout(packedKeys(3, loraIDs))
					}
					wantLoss, want := checkedGrads(t, m, loraIDs)
					m.SetGradientCheckpointing(true)
					loss, grads := checkedGrads(t, m, loraIDs)
					if loss != wantLoss {
						t.Errorf("the loss is %v, want %v", loss, wantLoss)
					}
					for n := range want {
						if !slices.Equal(grads[n], want[n]) {
							t.Errorf("the gradient of %s differs by %g from the one without checkpointing", n, maxAbsDiff(grads[n], want[n]))
						}
					}
					if len(m.tapes) != 0 {
						t.Errorf("%d tapes are left after Backward, want 0", len(m.tapes))
					}
				})
			}
		}
	}
}

// TestGradientCheckpointingAccumulates checks that gradients accumulate over
// micro-batches, without gradients of passes that the loss does not use.
func TestGradientCheckpointingAccumulates(t *testing.T) {
	m := openTiny(t, newThread(t), "llama-tied", torch.Float64)
	_, want := checkedGrads(t, m, loraIDs[:1], loraIDs[1:])
	m.SetGradientCheckpointing(true)
	run(t, m.Thread(), func(s *torch.Scope) { // a forward pass without Backward, as in a step whose loss is not finite
		m.SetTrainable(true)
		m.Forward(s, []int32{1, 2}, []int32{0, 1}, []int{0, 2})
		m.DropTapes()
	})
	_, got := checkedGrads(t, m, loraIDs[:1], loraIDs[1:])
	for n := range want {
		if d := maxAbsDiff(got[n], want[n]); !(d <= 1e-12) {
			t.Errorf("the gradient of %s differs by %g from the one without checkpointing", n, d)
		}
	}
}

// TestGradientCheckpointingSavesMemory checks that with checkpointing the peak memory of a pass
// falls from the activations of all layers to the inputs of all layers and the activations of one.
func TestGradientCheckpointingSavesMemory(t *testing.T) {
	if torch.HeapBytes() == 0 {
		t.Skip("glibc before 2.33 does not report the allocated bytes")
	}
	const layers = 8
	c := Config{
		ModelType: "llama", VocabSize: 64, HiddenSize: 64, IntermediateSize: 256, NumHiddenLayers: layers, NumAttentionHeads: 4,
		NumKeyValueHeads: 4, HeadDim: 16, MaxPositionEmbeddings: 1024, RMSNormEps: 1e-5, RopeTheta: 10000, InitializerRange: .1,
	}
	m, err := New(t.Context(), newThread(t), c, 1, torch.Float32)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	seq := make([]int32, 1024)
	for i := range seq {
		seq[i] = int32(i % 64)
	}
	peak := func(checkpointing bool) int64 {
		m.SetGradientCheckpointing(checkpointing)
		var most, before int64
		see := func() { most = max(most, torch.HeapBytes()-before) }
		onRewind = func(*Model) { see() }
		defer func() { onRewind = nil }()
		run(t, m.Thread(), func(s *torch.Scope) {
			m.SetTrainable(true)
			for _, p := range m.Params() { // allocate gradients first: they take the same memory with and without checkpointing
				p.Tensor.SetGrad(s.Zeros(torch.Float32, p.Tensor.Shape()...))
			}
			before = torch.HeapBytes()
			ids, positions, offsets := Pack(seq)
			logp, _ := m.TokenLogProbs(m.Forward(s, ids, positions, offsets), NextTokens(ids, offsets), nil, 1, false)
			l := logp.Sum()
			see()
			m.Backward(s, l)
			for _, p := range m.Params() {
				p.Tensor.ZeroGrad()
			}
		})
		return most
	}
	peak(false) // the first pass includes one-time allocations of libtorch
	plain, checkpointed := peak(false), peak(true)
	inputs := int64(layers * len(seq) * c.HiddenSize * 4)
	t.Logf("activations: %d KiB without checkpointing, %d KiB with it, of which %d KiB are the layers' inputs", plain>>10, checkpointed>>10, inputs>>10)
	if !(checkpointed < plain/3) {
		t.Errorf("activations take %d bytes with checkpointing and %d without it, want less than a third", checkpointed, plain)
	}
}
