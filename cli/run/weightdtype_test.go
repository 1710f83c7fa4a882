package run

import (
	"errors"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
)

// TestWeightDTypeOfSampler checks that int8 weights are refused on a device without their kernels, with a hint that names the key.
func TestWeightDTypeOfSampler(t *testing.T) {
	for _, d := range []torch.Device{{}, {Protected: true}} {
		th, err := torch.NewThread(d)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(th.Close)
		b, err := model.Open(t.Context(), th, copyTinyModel(t), model.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		s, err := NewSampler(t.Context(), b, b.Model, SamplerOptions{
			Sequences: 1, MaxContext: 64, Plain: true, WeightDType: configs.Int8, MemoryShare: 0.1, Utilization: 0.9,
		})
		if err == nil {
			s.Close()
		}
		e, ok := errors.AsType[*errext.Error](err)
		if refused := ok && strings.Contains(e.Hint, "rollout.weight_dtype"); refused == d.IsCPU() || d.IsCPU() && err != nil {
			t.Errorf("on %s: error %v", d, err)
		}
	}
}
