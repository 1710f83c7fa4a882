package run

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/torch"
)

func TestKVTokens(t *testing.T) {
	base := SamplerOptions{Sequences: 8, MaxContext: 100, Hint: "free some memory"}
	for _, c := range []struct {
		name   string
		budget int64
		known  bool
		want   int
		fault  string
	}{
		{"plenty", 1 << 30, true, 800, ""},
		{"unknown", 0, false, 800, ""},
		{"less than all sessions need", 10 * 300, true, 300, ""},
		{"too little for one episode", 10 * 99, true, 0, "free some memory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := base.kvTokens(10, c.budget, c.known)
			if (err != nil) != (c.fault != "") || got != c.want {
				t.Fatalf("%d, %v; want %d", got, err, c.want)
			}
			if err != nil {
				mustContain(t, "the error", err.Error(), c.fault)
			}
		})
	}
}

// TestCacheBudget checks the budget on a GPU: what is in use counts, so the weights do.
func TestCacheBudget(t *testing.T) {
	d, err := torch.ParseDevice("protected")
	if err != nil {
		t.Fatal(err)
	}
	thread, err := torch.NewThread(d)
	if err != nil {
		t.Fatal(err)
	}
	defer thread.Close()
	err = torch.Run(t.Context(), thread, func(s *torch.Scope) error {
		const weights = 1 << 30
		s.Empty(torch.Float32, weights/4)
		m, err := d.Memory()
		if err != nil {
			return err
		}
		got, known, err := SamplerOptions{Utilization: 0.5}.cacheBudget(d)
		if want := m.Total/2 - weights; err != nil || !known || got != want {
			t.Errorf("%d, %v, %v; want %d", got, known, err, want)
		}
		if got, _, _ := (SamplerOptions{Utilization: 0.01}).cacheBudget(d); got != 0 {
			t.Errorf("%d bytes although the weights exceed the share, want 0", got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
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
