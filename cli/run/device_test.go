package run

import (
	"testing"

	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/torch"
)

// TestComputeDtype checks model.compute_dtype on a CPU: auto, which is the default
// and the value in the presets, is float32.
func TestComputeDtype(t *testing.T) {
	for name, want := range map[string]string{
		Schema.Defaults().Model.ComputeDtype: "float32", "auto": "float32", "float32": "float32", "bfloat16": "bfloat16",
	} {
		if got, err := ComputeDtype(name, "cpu"); err != nil || got != want {
			t.Errorf("compute_dtype %q on a CPU is %q, %v; want %q", name, got, err, want)
		}
	}
	if _, err := ComputeDtype("auto", "cuda:x"); err == nil {
		t.Error("ComputeDtype returns no error for an invalid device")
	}
	for _, preset := range configs.PresetNames() {
		text, err := configs.Preset(preset)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := Schema.Load(preset, text, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ComputeDtype(cfg.Model.ComputeDtype, "cpu"); err != nil || got != "float32" && preset != "smollm2-maze" {
			t.Errorf("preset %s computes in %s on a CPU (%v)", preset, got, err)
		}
	}
}

// TestUsualGap checks that the limit of each dtype is above the measured gap.
func TestUsualGap(t *testing.T) {
	for _, c := range []struct {
		dt       torch.DType
		int8     bool
		measured float64
	}{{torch.Float32, false, 3e-6}, {torch.BFloat16, false, 0.031}, {torch.Float32, true, 0.08}, {torch.BFloat16, true, 0.092}} {
		if limit := usualGap(c.dt, c.int8); limit < 1.5*c.measured {
			t.Errorf("the limit for %s, int8 weights %t, is %g, want at least 1.5 times the gap of SmolLM2-135M-Instruct, %g", c.dt, c.int8, limit, c.measured)
		}
	}
}
