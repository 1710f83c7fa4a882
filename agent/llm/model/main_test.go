package model

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/gguf"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/safetensors"
	"github.com/openmanus/openmanus/torch/torchtest"
)

func TestMain(m *testing.M) {
	torch.SetNumThreads(1) // on busy cores two threads are slower than one
	// Autograd accepts no devices after the first backward pass, so the protected device is loaded before. NewThread reports errors.
	_, _ = torch.ParseDevice("protected")
	torchtest.Main(m)
}

// newThread starts a CPU thread for one test.
func newThread(t testing.TB) *torch.Thread {
	t.Helper()
	th, err := torch.NewThread(torchtest.Device(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(th.Close)
	return th
}

// run calls torch.Run and fails the test on an error.
func run(t testing.TB, th *torch.Thread, f func(s *torch.Scope)) {
	t.Helper()
	err := torch.Run(context.Background(), th, func(s *torch.Scope) error {
		f(s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// openTiny loads one of the tiny models of make_goldens.py.
func openTiny(t testing.TB, th *torch.Thread, name string, dt torch.DType) *Model {
	t.Helper()
	dir := filepath.Join("testdata", name)
	c, err := readConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	m, err := loadFolder(context.Background(), th, dir, c, dt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// loadFolder loads the weights of a Hugging Face folder.
func loadFolder(ctx context.Context, t *torch.Thread, dir string, c Config, dt torch.DType) (*Model, error) {
	f, err := safetensors.OpenFolder(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return load(ctx, t, c, dt, folderSource{f})
}

// golden is a golden.json.
type golden struct {
	Sequences []struct {
		IDs      []int32   `json:"ids"`
		LogProbs []float64 `json:"logprobs"`
		Score    float64   `json:"score"` // set for classifiers
	} `json:"sequences"`
}

func (g golden) ids() [][]int32 {
	var out [][]int32
	for _, s := range g.Sequences {
		out = append(out, s.IDs)
	}
	return out
}

func readJSON[T any](t testing.TB, path string) T {
	t.Helper()
	var v T
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return v
}

// maxDiff returns the largest absolute difference; different lengths fail the test.
func maxDiff(t testing.TB, got []float32, want []float64) float64 {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d numbers, want %d", len(got), len(want))
	}
	worst := 0.0
	for i := range got {
		// The negated comparison is true for NaN.
		if d := abs(float64(got[i]) - want[i]); !(d <= worst) {
			worst = d
		}
	}
	return worst
}

func abs(x float64) float64 {
	if x < 0 {
		return -x
	}
	return x
}

func widen(v []float32) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

// readGrads returns the golden gradients by name.
func readGrads(t testing.TB, s *torch.Scope, path string) map[string]torch.Tensor {
	t.Helper()
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string]torch.Tensor{}
	for _, n := range f.Names() {
		info, data, err := f.Tensor(n)
		if err != nil {
			t.Fatal(err)
		}
		out[n] = s.Bytes(data, torch.Float32, info.Shape...)
	}
	return out
}

// openWeights loads the weights of a GGUF file that has no vocabulary.
func openWeights(t testing.TB, path string) *Model {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := ggufConfig(f)
	if err != nil {
		t.Fatal(err)
	}
	src, err := newGGUFSource(f, c)
	if err != nil {
		t.Fatal(err)
	}
	m, err := load(context.Background(), newThread(t), c, torch.Float32, src)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}
