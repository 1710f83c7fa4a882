package main

import (
	"math"
	"testing"
	"time"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/torch"
)

// TestBound checks the bounds of a model and a machine whose sums can be done by hand.
func TestBound(t *testing.T) {
	c := model.Config{VocabSize: 10, HiddenSize: 4, NumHiddenLayers: 2, NumKeyValueHeads: 1, HeadDim: 2}
	w := workOf(c, model.Cost{Linear: 100, Attention: 5}, 4)
	// A token costs 200 operations and 20 for each token that it attends to, the head costs 80. A step reads 560 bytes and 32 for each cached token.
	if want := (Work{linear: 200, attention: 20, head: 80, weights: 560, cached: 32}); w != want {
		t.Fatalf("got %+v, want %+v", w, want)
	}
	fast, narrow := Machine{GFLOPs: 1e-9, GBPerSec: 1}, Machine{GFLOPs: 1, GBPerSec: 1e-9} // one operation, or one byte, a second
	for _, tt := range []struct {
		name string
		m    Machine
		job  Job
		want float64
	}{
		{"prefill", fast, Job{Kind: Prefill, Batch: 2, Tokens: 3}, 2 * (3*200 + (1+2+3)*20 + 80)},
		{"ragged prefill", fast, Job{Kind: Prefill, Batch: 2, Tokens: 3, Ragged: true, Shortest: 1}, (3*200 + (1+2+3)*20 + 80) + (200 + 20 + 80)},
		{"decode, operations", fast, Job{Kind: Decode, Batch: 2, Context: 3, New: 2}, 2 * (2*(200+80) + (4+5)*20)},
		{"decode, bytes", narrow, Job{Kind: Decode, Batch: 2, Context: 3, New: 2}, 2*560 + 2*(4+5)*32},
		{"train", fast, Job{Kind: Train, Batch: 2, Tokens: 2}, 3 * 2 * (2*200 + (1+2)*20 + 2*80)},
		// The first turn of both: 2 tokens read, 1 more decoded. The second turn of one: 1 token read after 4.
		{"turns", fast, Job{Kind: Turns, Batch: 2, Turns: 2, Fewest: 1, Prompt: 2, New: 2, Observation: 1},
			2*(2*200+3*20+80) + 2*(200+80+3*20) + (200 + 5*20 + 80) + (200 + 80 + 6*20)},
	} {
		if got := w.bound(tt.m, tt.job); math.Abs(got.Seconds()-tt.want) > 1e-3*tt.want {
			t.Errorf("%s: got %v, want %g s", tt.name, got, tt.want)
		}
	}
	g := GRPOWork{Tasks: 2, Group: 2}
	prompt, step := 3, func(i int) float64 { return 4 * (200 + 80 + float64(3+i)*20) }
	want := 2. * (3*200 + 6*20 + 80)
	for i := 1; i < grpoNew; i++ {
		want += step(i)
	}
	reply := grpoNew*200 + 20*(grpoNew*3+grpoNew*(grpoNew+1)/2) + grpoNew*80
	want += 3 * (2*(3*200+6*20) + 4*float64(reply))
	if got := g.bound(w, fast, prompt); math.Abs(got-want) > 1e-6*want {
		t.Errorf("GRPO: got %g s, want %g s", got, want)
	}
}

// TestShareOfBound checks the share of a comparison against a machine.
func TestShareOfBound(t *testing.T) {
	c := Comparison{Job: Job{Kind: Train, Batch: 1, Tokens: 1}, Ours: 0.25}
	c.bound(Work{linear: 1}, Machine{GFLOPs: 1.5e-9})
	if math.Abs(c.Bound-0.5) > 1e-6 || math.Abs(c.Share-0.5) > 1e-6 {
		t.Errorf("got the bound %g and the share %g, want 0.5 and 0.5", c.Bound, c.Share)
	}
}

// TestProbe measures the machine once.
func TestProbe(t *testing.T) {
	thread, err := torch.NewThread(torch.Device{})
	if err != nil {
		t.Fatal(err)
	}
	defer thread.Close()
	m := Machine{dtype: torch.Float32}
	if err := m.probe(t.Context(), thread); err != nil {
		t.Fatal(err)
	}
	if len(m.gflops) != 1 || len(m.bandwidth) != 1 || !(m.GFLOPs > 0) || !(m.GBPerSec > 0) {
		t.Errorf("got %+v", m)
	}
}

// TestTrainPasses checks the division of rows into passes, and a step whose arithmetic is in bfloat16.
func TestTrainPasses(t *testing.T) {
	if got := passesOf([]int{2000, 48, 1, 3000, 5}); len(got) != 4 || len(got[0]) != 2 || len(got[1]) != 1 || got[2][0] != 3000 {
		t.Errorf("got the passes %v", got)
	}
	j := Job{Name: "train", Kind: Train, Batch: 2, Tokens: 12, Master: true}
	o, err := OpenOurs(t.Context(), "../agent/llm/model/testdata/llama-tied", "cpu", torch.BFloat16, []Job{j})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if o.model.DType() != torch.Float32 || o.compute.DType() != torch.BFloat16 {
		t.Errorf("the model has the type %v and computes in %v", o.model.DType(), o.compute.DType())
	}
	var took time.Duration
	if took, err = o.Run(t.Context(), j); err == nil {
		took, err = o.Run(t.Context(), Job{Name: "decode", Kind: Decode, Batch: 1, Context: 2, New: 1})
	}
	if err != nil || took <= 0 || o.adamw.Steps() != 1 {
		t.Errorf("%v, error %v, %d steps", took, err, o.adamw.Steps())
	}
}
