package run

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/torch"
)

func TestKVTokens(t *testing.T) {
	base := SamplerOptions{Sequences: 8, MaxContext: 100, MemoryShare: 0.5, Hint: "free some memory"}
	for _, c := range []struct {
		name  string
		free  int64
		known bool
		want  int
		fault string
	}{
		{"plenty", 1 << 30, true, 800, ""},
		{"unknown", 0, false, 800, ""},
		{"half of the free memory", 10 * 2 * 300, true, 300, ""},
		{"too little for one episode", 10 * 2 * 99, true, 0, "free some memory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := base.kvTokens(10, c.free, c.known)
			if (err != nil) != (c.fault != "") || got != c.want {
				t.Fatalf("%d, %v; want %d", got, err, c.want)
			}
			if err != nil {
				mustContain(t, "the error", err.Error(), c.fault)
			}
		})
	}
}

// TestLogCacheSize checks that the size of the KV cache is logged only on a GPU, where
// the free memory does not limit the size.
func TestLogCacheSize(t *testing.T) {
	for _, d := range []torch.Device{{}, {CUDA: true}} {
		ts := newTestHost(t)
		tr := &training{host: &ts.Host, sampler: &Sampler{KVBytes: 4096}}
		tr.cfg.Agent.MaxWorkers, tr.cfg.Rollout.MaxSequences = 3, 5
		tr.logCacheSize(d)
		if d.CUDA != strings.Contains(ts.log.String(), "bytes=4096 sessions=3") {
			t.Errorf("%s: %q", d, ts.log.String())
		}
	}
}

// TestStopTokens checks that a reply ends at each end token in the model's files.
// Qwen2.5 has two end tokens, Llama 3 has three.
func TestStopTokens(t *testing.T) {
	for _, c := range []struct {
		name, generation string
		want             []int32
	}{
		{"one", `{"eos_token_id": 2}`, []int32{2}},
		{"two", `{"eos_token_id": [2, 0]}`, []int32{2, 0}},
		{"without the token of the template", `{"eos_token_id": 0}`, []int32{2, 0}},
		{"none", `{}`, []int32{2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := copyTinyModel(t)
			writeFile(t, dir, "generation_config.json", c.generation)
			thread, err := OpenThread(&newTestHost(t).Host, "cpu")
			if err != nil {
				t.Fatal(err)
			}
			defer thread.Close()
			b, err := model.Open(context.Background(), thread, dir, model.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			r, err := NewRenderer(b, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, r.StopTokens()); diff != "" {
				t.Errorf("stop tokens (-want +got):\n%s", diff)
			}
		})
	}
}
