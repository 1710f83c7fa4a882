package learner

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/optim"
	"github.com/openmanus/openmanus/torch/torchtest"
)

func TestMain(m *testing.M) {
	torch.SetNumThreads(1) // on busy cores the wait for a second thread takes longer than its work
	// Autograd accepts no devices after the first backward pass, so the protected device is loaded before. NewThread reports errors.
	_, _ = torch.ParseDevice("protected")
	torchtest.Main(m)
}

// tinyVocab is 256 bytes and the two tokens of a chat.
const tinyVocab = 258

// tinyConfig is a llama with large weights. With the usual deviation of 0.02 all log-probs would be nearly equal, and
// tests would not detect errors.
func tinyConfig() model.Config {
	end := int32(tinyVocab - 1)
	return model.Config{
		ModelType: "llama", VocabSize: tinyVocab, HiddenSize: 32, IntermediateSize: 48, NumHiddenLayers: 2,
		NumAttentionHeads: 4, NumKeyValueHeads: 2, HeadDim: 8, MaxPositionEmbeddings: 512, RMSNormEps: 1e-5,
		RopeTheta: 10000, TieWordEmbeddings: true, InitializerRange: 0.3, EOSTokenIDs: []int32{end}, PadTokenID: &end,
	}
}

// testActor makes an actor on a tiny random model, with the same weights at every call.
func testActor(t testing.TB, compute torch.DType) *Actor {
	t.Helper()
	th, err := torch.NewThread(torchtest.Device(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(th.Close)
	m, err := model.New(context.Background(), th, tinyConfig(), 11, torch.Float32)
	if err != nil {
		t.Fatal(err)
	}
	a, err := NewActor(context.Background(), m, compute, optim.DefaultAdamW())
	if err != nil {
		m.Close()
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// trainRows makes rows of different lengths with every field that an update reads. One row has no sampled token.
func trainRows(n int) []data.Row {
	rows := make([]data.Row, n)
	for i := range rows {
		r := &rows[i]
		r.UID = fmt.Sprintf("task%d", i/2)
		length := 9 + 7*i%23
		r.Tokens = make([]int32, length)
		r.Mask = make([]uint8, length)
		r.Advantages = make([]float32, length)
		r.RefLogProbs = make([]float32, length)
		r.OldLogProbs = make([]float32, length)
		r.RolloutLogProbs = make([]float32, length)
		for j := range r.Tokens {
			r.Tokens[j] = int32((i*37 + j*j*11 + 5) % tinyVocab)
			if i != 3 && j%5 > 1 {
				r.Mask[j] = 1
				r.Advantages[j] = float32(1 - i%3)
				r.RefLogProbs[j] = -4 - .1*float32(j%4)
				r.OldLogProbs[j] = -5 + .2*float32(j%3)
			}
		}
	}
	return rows
}

// tensors returns one tensor for every parameter: its values or its gradient.
func tensors(t testing.TB, a *Actor, of func(torch.Tensor) torch.Tensor) map[string][]float32 {
	t.Helper()
	out := map[string][]float32{}
	err := torch.Run(context.Background(), a.Master().Thread(), func(s *torch.Scope) error {
		s.NoGrad(func() {
			for _, p := range a.Master().Params() {
				x := of(p.Tensor)
				if x.None() {
					return
				}
				out[p.Name] = x.ToFloat32s()
			}
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) != len(a.Master().Params()) {
		t.Fatalf("%d of %d parameters have a tensor, want all", len(out), len(a.Master().Params()))
	}
	return out
}

func weights(t testing.TB, a *Actor) map[string][]float32 {
	return tensors(t, a, func(w torch.Tensor) torch.Tensor { return w.Detach() })
}

func gradients(t testing.TB, a *Actor) map[string][]float32 {
	return tensors(t, a, func(w torch.Tensor) torch.Tensor { return w.Grad() })
}

// sameTensors fails the test if a tensor is off by more than 1e-6.
func sameTensors(t testing.TB, what string, got, want map[string][]float32) {
	t.Helper()
	if d, name := relative(t, got, want); d > 1e-6 {
		t.Errorf("%s: the relative error of %s is %.2g", what, name, d)
	}
}

// relative returns the largest ‖a-b‖/‖b‖ over the tensors, with the tensor's name.
func relative(t testing.TB, a, b map[string][]float32) (worst float64, name string) {
	t.Helper()
	for n, want := range b {
		var d, norm float64
		for i, w := range want {
			d += math.Pow(float64(a[n][i])-float64(w), 2)
			norm += float64(w) * float64(w)
		}
		if norm == 0 {
			t.Fatalf("%s is 0 everywhere", n)
		}
		if r := math.Sqrt(d / norm); !(r <= worst) { // also if r is NaN
			worst, name = r, n
		}
	}
	return worst, name
}

// gradientSFT adds the gradient of supervised training on the rows.
func gradientSFT(t *testing.T, a *Actor, rows []data.Row, micro MicroBatching) SFTStats {
	t.Helper()
	st := SFTStats{Tokens: LossTokens(rows)}
	must(t, a.accumulateSFT(t.Context(), rows, micro, &st))
	return st
}

// stepOnce does an optimiser step with the gradients so far.
func stepOnce(t *testing.T, a *Actor) {
	t.Helper()
	_, err := a.step(t.Context(), nil, optim.Share{Of: a.adamw, LR: 1e-3, MaxNorm: 1})
	must(t, err)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
