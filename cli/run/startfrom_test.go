package run

import (
	"testing"
)

// TestWeightsAdvice checks that the advice for starting from a checkpoint's weights
// has the settings of the training mode.
func TestWeightsAdvice(t *testing.T) {
	cfg, err := Schema.Load("run.toml", []byte(tinyRun), nil)
	if err != nil {
		t.Fatal(err)
	}
	for m, want := range map[mode]string{
		reinforced: "set model.path to the checkpoint's actor folder, model.fresh.layers = 0, sft.epochs = 0",
		supervised: "set model.path to the checkpoint's actor folder, model.fresh.layers = 0",
	} {
		if got := weightsAdvice(cfg, m); got != want {
			t.Errorf("mode %v: %q, want %q", m, got, want)
		}
	}
}
