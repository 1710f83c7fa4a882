package main

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/torch"
)

// logProbs returns the log-probs of a greedy reply of a model that is opened for the job.
func logProbs(t *testing.T, path string, j Job) []float32 {
	t.Helper()
	o, err := OpenOurs(t.Context(), path, "cpu", torch.BFloat16, []Job{j})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	s, err := o.sampler.Scheduler.Open(t.Context(), engine.SessionOptions{Key: engine.Key{Task: "x"}, MaxContext: j.context() + 1})
	if err != nil {
		t.Fatal(err)
	}
	defer o.sampler.Scheduler.Close(s)
	r, err := o.sampler.Scheduler.Generate(t.Context(), s, []int32{11, 12, 13}, engine.Params{MaxNew: 3, Greedy: true})
	if err != nil {
		t.Fatal(err)
	}
	return r.LogProbs
}

// TestInt8Job checks that Job.Int8 changes the weights that sample.
func TestInt8Job(t *testing.T) {
	path := filepath.Join("..", "agent", "llm", "model", "testdata", "llama-tied")
	j := Job{Kind: Decode, Batch: 1, Context: 3, New: 3}
	plain := logProbs(t, path, j)
	j.Int8 = true
	if slices.Equal(plain, logProbs(t, path, j)) {
		t.Errorf("the log-probs with int8 weights equal those without: %v", plain)
	}
}

// TestInt8 measures a tiny model.
func TestInt8(t *testing.T) {
	o := options{model: filepath.Join("..", "agent", "llm", "model", "testdata", "llama-tied"), rounds: 1}
	var r report
	jobs := []Job{{Name: "decode, 2 rows", Kind: Decode, Batch: 2, Context: 5, New: 4, Int8: true}}
	if err := r.measureInt8(t.Context(), o, jobs, t.Output()); err != nil {
		t.Fatal(err)
	}
	if len(r.Speed) != 1 || r.Speed[0].Type != "int8" || r.Speed[0].Ours <= 0 || len(r.Speed[0].Peers) != 1 || r.Speed[0].Peers[0].Name != "bfloat16 weights" {
		t.Errorf("got %+v, want one row with a peer", r.Speed)
	}
}
