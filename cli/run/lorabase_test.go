package run

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/rundir/checkpoint"
	"github.com/openmanus/openmanus/torch"
)

// TestLoRABaseOfGGUF checks that adapters on a GGUF file name a base that PEFT
// can open: a Hugging Face folder with the same weights, written once.
func TestLoRABaseOfGGUF(t *testing.T) {
	ctx, ts := t.Context(), newTestHost(t)
	th, err := torch.NewThread(torch.Device{})
	if err != nil {
		t.Fatal(err)
	}
	defer th.Close()
	from, err := filepath.Abs(filepath.Join("..", "..", "agent", "llm", "model", "testdata", "gguf", "llama-q8_0.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := Schema.Defaults()
	cfg.Model.Path, cfg.Model.LoRARank = from, 2
	run := &runFolder{Folder: &rundir.Folder{Dir: t.TempDir()}}
	actor, base := filepath.Join(run.Dir, "actor"), filepath.Join(run.Dir, "base")
	seq := []int32{1, 5, 9, 30, 7}
	logprobs := func(path string) []float32 {
		b, err := model.Open(ctx, th, path, model.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		out, err := b.Model.LogProbs(ctx, 1, seq)
		if err != nil {
			t.Fatal(err)
		}
		return out[0]
	}
	// Write a file that a run without a checkpoint could have left over.
	if err := os.MkdirAll(base, 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, base, "config.json", "{}")
	var written os.FileInfo
	for range 2 { // the second pass is a resumed run
		tr := &training{host: &ts.Host, cfg: cfg, run: run, thread: th, compute: torch.Float32}
		b, err := tr.openWeights(ctx)
		if err != nil {
			t.Fatal(err)
		}
		err = b.SaveAdapters(ctx, actor)
		b.Close()
		if err != nil {
			t.Fatal(err)
		}
		read := func(dir, name string) []byte {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		var config struct {
			Base string `json:"base_model_name_or_path"`
		}
		if err := json.Unmarshal(read(actor, "adapter_config.json"), &config); err != nil || config.Base != base {
			t.Fatalf("the adapters name the base %q (%v), want %q", config.Base, err, base)
		}
		for _, name := range []string{"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} {
			if len(read(base, name)) == 0 {
				t.Errorf("%s is empty", name)
			}
		}
		now, err := os.Stat(filepath.Join(base, "model.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		if written != nil && !os.SameFile(written, now) {
			t.Error("a resumed run wrote the base again")
		}
		written, run.checkpoint = now, &checkpoint.Checkpoint{Path: run.Dir}
	}
	want := logprobs(from)
	for _, path := range []string{base, actor} { // fresh adapters do not change log-probs
		if got := logprobs(path); !slices.Equal(got, want) {
			t.Errorf("%s: got log-probs %v, want those of the GGUF file, %v", filepath.Base(path), got, want)
		}
	}
}
