package model

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/torch"
)

// budget is the largest number of operations of a layer in the forward and backward pass of a micro-batch.
const budget = 40

// TestTrainingLaunchBudget checks on the protected device what a layer costs a GPU in training: every launch of the forward and
// the backward pass, with gradient checkpointing also those of the second forward pass, and of the move of the gradients to the
// float32 weights. The number of a layer is half the difference of models with four and with two layers. Micro-batches after
// the first add to gradients. The passes do not wait for the device.
func TestTrainingLaunchBudget(t *testing.T) {
	if os.Getenv("OPENMANUS_KERNELS") == "off" {
		t.Skip("the budget holds with the kernels")
	}
	th, err := torch.NewThread(torch.Device{Protected: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(th.Close)
	for _, family := range []string{"llama", "qwen2", "qwen3"} {
		for _, dt := range []torch.DType{torch.Float32, torch.BFloat16} {
			for _, checkpointing := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s in %v, checkpointing %v", family, dt, checkpointing), func(t *testing.T) {
					var traces [2][]string
					var downloads [2]int
					for i, layers := range []int{2, 4} {
						traces[i], downloads[i] = traceTraining(t, th, family, layers, dt, checkpointing, nil)
					}
					perLayer := float64(len(traces[1])-len(traces[0])) / 2
					t.Logf("%g operations a layer, %d besides", perLayer, len(traces[0])-int(2*perLayer))
					if perLayer > budget || downloads != [2]int{} {
						t.Errorf("%g operations a layer, want at most %d, and %d copies to the host, want none; the operations of four layers:\n%s",
							perLayer, budget, downloads, strings.Join(traces[1], "\n"))
					}
				})
			}
		}
	}
}

// TestLoRALaunchBudget is TestTrainingLaunchBudget for adapters on all linear layers. The adapters are float32, so that bfloat16 adds their casts.
func TestLoRALaunchBudget(t *testing.T) {
	if os.Getenv("OPENMANUS_KERNELS") == "off" {
		t.Skip("the budget holds with the kernels")
	}
	th, err := torch.NewThread(torch.Device{Protected: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(th.Close)
	for _, tt := range []struct {
		dt      torch.DType
		dropout float64
		most    float64
	}{{torch.Float32, 0, 108}, {torch.Float32, .1, 122}, {torch.BFloat16, 0, 132}, {torch.BFloat16, .1, 146}} {
		var traces [2][]string
		for i, layers := range []int{2, 4} {
			var downloads int
			traces[i], downloads = traceTraining(t, th, "llama", layers, tt.dt, false, &LoRA{Rank: 4, Alpha: 8, Dropout: tt.dropout, Targets: []string{AllLinear}})
			if downloads != 0 {
				t.Errorf("%v, dropout %v: %d copies to the host, want none", tt.dt, tt.dropout, downloads)
			}
		}
		perLayer := float64(len(traces[1])-len(traces[0])) / 2
		t.Logf("%v, dropout %v: %g operations a layer", tt.dt, tt.dropout, perLayer)
		if perLayer > tt.most {
			t.Errorf("%v, dropout %v: %g operations a layer, want at most %g; the operations of four layers:\n%s",
				tt.dt, tt.dropout, perLayer, tt.most, strings.Join(traces[1], "\n"))
		}
	}
}

// traceTraining returns the operations of the second micro-batch of a new model, and the number of copies to the host.
func traceTraining(t *testing.T, th *torch.Thread, family string, layers int, dt torch.DType, checkpointing bool, lora *LoRA) (names []string, downloads int) {
	t.Helper()
	c := Config{
		ModelType: family, VocabSize: 64, HiddenSize: 32, IntermediateSize: 48, NumHiddenLayers: layers, NumAttentionHeads: 4,
		NumKeyValueHeads: 2, HeadDim: 8, MaxPositionEmbeddings: 128, RMSNormEps: 1e-5, RopeTheta: 10000, InitializerRange: .1,
	}
	master, err := New(t.Context(), th, c, 1, torch.Float32)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	m := master
	if dt != torch.Float32 {
		if m, err = master.Shadow(t.Context(), dt); err != nil {
			t.Fatal(err)
		}
		defer m.Close()
	}
	if lora != nil {
		if err := m.AddLoRA(t.Context(), *lora, 1); err != nil {
			t.Fatal(err)
		}
		m.SetDropout([]uint64{1, 2, 3}, []int{0, 9, 14, 34})
	}
	m.SetGradientCheckpointing(checkpointing)
	run(t, th, func(s *torch.Scope) {
		m.SetTrainable(true)
		ids, positions, offsets := Pack(make([]int32, 9), make([]int32, 5), make([]int32, 20))
		pass := func() {
			logp, _ := m.TokenLogProbs(m.Forward(s, ids, positions, offsets), NextTokens(ids, offsets), nil, 1, true)
			m.Backward(s, logp.Sum())
			if m != master && lora == nil {
				master.MoveGrads(s, m)
			}
		}
		pass()
		before := torch.ProtectedCounts().Downloads
		names = torch.ProtectedTrace(pass)
		downloads = torch.ProtectedCounts().Downloads - before
		for _, p := range m.Trained() {
			p.Tensor.ZeroGrad()
		}
		for _, p := range master.Trained() {
			p.Tensor.ZeroGrad()
		}
	})
	return names, downloads
}
