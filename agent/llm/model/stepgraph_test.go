package model

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// graphThread starts a thread of the device of the tests if it has graphs, or else of the protected device.
func graphThread(t *testing.T) *torch.Thread {
	t.Helper()
	if os.Getenv("OPENMANUS_KERNELS") == "off" {
		t.Skip("graphs need the kernels")
	}
	d := torchtest.Device(t)
	if d.IsCPU() {
		d = torch.Device{Protected: true}
	}
	th, err := torch.NewThread(d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(th.Close)
	return th
}

// decoding has the state of sequences that are decoded in a cache: sequence i has the blocks perSequence·i and following.
type decoding struct {
	c       *Cache
	lengths []int
}

const perSequence = 20 // blocks of 32 tokens

func newDecoding(t *testing.T, m *Model, sequences int) *decoding {
	t.Helper()
	c, err := m.NewCache(context.Background(), sequences*perSequence, 32)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &decoding{c, make([]int, sequences)}
}

// batch returns n new tokens for each of some sequences, with a draw after the last ones.
func (d *decoding) batch(sequences []int, n int, change func(i int, r *torch.SampleRow)) (b DecodeBatch) {
	b.Seqs.QOffsets = []int{0}
	for _, i := range sequences {
		var blocks []int32
		for j := range perSequence {
			blocks = append(blocks, int32(i*perSequence+j))
		}
		for range n {
			at := d.lengths[i]
			b.IDs = append(b.IDs, int32(3+(7*at+11*i)%60))
			b.Positions = append(b.Positions, int32(at))
			b.Slots = append(b.Slots, int64(i*perSequence*32+at))
			d.lengths[i]++
		}
		r := torch.SampleRow{Key: uint64(i), Position: uint64(d.lengths[i]), Temperature: 1, TopP: 1}
		if change != nil {
			change(i, &r)
		}
		b.Outputs, b.Draws = append(b.Outputs, int64(len(b.IDs)-1)), append(b.Draws, r)
		b.Seqs.QOffsets, b.Seqs.Lens, b.Seqs.Blocks = append(b.Seqs.QOffsets, len(b.IDs)), append(b.Seqs.Lens, d.lengths[i]), append(b.Seqs.Blocks, blocks)
	}
	return b
}

// drawn has the results of a step.
type drawn struct {
	logits, logps []float32
	ids           []int32
	kept          [][]int32
}

// step computes a batch by graphs.
func (d *decoding) step(t *testing.T, m *Model, b DecodeBatch) (out drawn) {
	t.Helper()
	run(t, m.thread, func(s *torch.Scope) {
		var logits torch.Tensor
		logits, out.ids, out.logps, out.kept = m.SampleByGraph(s, d.c, b)
		out.logits = logits.Narrow(0, 0, len(b.Draws)).ToFloat32s()
	})
	return out
}

// TestStepGraphs checks that launched graphs compute what the same operations compute one by one, to the last bit. On the protected
// device a launch runs nothing but the recorded operations on the recorded addresses.
func TestStepGraphs(t *testing.T) {
	th := graphThread(t)
	for _, tt := range []struct {
		name, folder string
		dt           torch.DType
		lora         bool
	}{
		{"float32", "llama-tied", torch.Float32, false},
		{"bfloat16", "llama-tied", torch.BFloat16, false},
		{"biases", "qwen2", torch.Float32, false},
		{"norms of heads", "qwen3", torch.BFloat16, false},
		{"adapters", "llama", torch.BFloat16, true},
		{"long contexts", "", torch.Float32, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var m *Model
			if tt.folder != "" {
				m = openTiny(t, th, tt.folder, tt.dt)
			} else {
				var err error
				if m, err = New(t.Context(), th, Config{
					ModelType: "qwen2", VocabSize: 64, HiddenSize: 32, IntermediateSize: 48, NumHiddenLayers: 2, NumAttentionHeads: 4,
					NumKeyValueHeads: 2, HeadDim: 8, MaxPositionEmbeddings: 1024, RMSNormEps: 1e-5, RopeTheta: 10000, InitializerRange: .1,
				}, 1, tt.dt); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(m.Close)
			}
			if tt.lora {
				if err := m.AddLoRA(t.Context(), LoRA{Rank: 4, Alpha: 8, Targets: []string{AllLinear}}, 1); err != nil {
					t.Fatal(err)
				}
			}
			const sequences = 20
			graphs, rehearsed := newDecoding(t, m, sequences), newDecoding(t, m, sequences)
			rows := func(n int) (list []int) {
				for i := range n {
					list = append(list, (i*3)%sequences)
				}
				return list
			}
			launches := 0
			play := func(name string, list []int, n int, change func(int, *torch.SampleRow)) {
				t.Helper()
				rehearsed.c.graphs.close()
				rehearsed.c.graphs = stepGraphs{}
				want := rehearsed.step(t, m, rehearsed.batch(list, n, change))
				before := torch.Counts{}
				if th.Device().Protected {
					before = torch.ProtectedCounts()
				}
				got := graphs.step(t, m, graphs.batch(list, n, change))
				if th.Device().Protected && torch.ProtectedCounts().Operations-before.Operations == 1 {
					launches++
				}
				if !slices.Equal(got.ids, want.ids) || !slices.Equal(got.logps, want.logps) || !slices.Equal(got.logits, want.logits) || !slices.EqualFunc(got.kept, want.kept, slices.Equal) {
					t.Fatalf("%s of %d sequences: the results differ from those without graphs", name, len(list))
				}
			}
			play("prefill", rows(sequences), 9, nil)
			for range 3 {
				for _, n := range []int{1, 2, 3, 7, 20} {
					play("decode", rows(n), 1, nil)
				}
				play("other sequences", []int{19, 4, 11}, 1, nil)
				play("top-p", []int{1, 2, 3}, 1, func(i int, r *torch.SampleRow) { r.TopP, r.Temperature = 0.7, 1.5 })
				play("mixed draws", []int{5, 6, 7, 8}, 1, func(i int, r *torch.SampleRow) { r.TopK, r.Greedy = i%3*4, i == 7 })
			}
			want := 13 // of the 18 steps of 5 kinds without top-k and top-p, all but the first of each kind
			if m.Config.MaxPositionEmbeddings > contextUnit {
				play("a long context", []int{0, 13}, contextUnit, nil)
				for range 3 {
					play("decode in a long context", []int{0, 13}, 1, nil)
				}
				want += 2
			}
			if th.Device().Protected && launches != want {
				t.Errorf("%d steps were one operation, want %d", launches, want)
			}
		})
	}
}

// TestStepGraphsFollowAddresses checks that graphs are dropped if a weight moves, as in offloading. Otherwise the protected device
// reports the use of freed memory.
func TestStepGraphsFollowAddresses(t *testing.T) {
	th := graphThread(t)
	m := openTiny(t, th, "llama-tied", torch.Float32)
	d := newDecoding(t, m, 2)
	for i := range 8 {
		if i == 4 {
			run(t, th, func(s *torch.Scope) {
				m.owner.Replace(s, func(t torch.Tensor) torch.Tensor { return t.Clone().MulScalar(0.5) }, &m.Norm.Weight)
			})
		}
		want := drawn{}
		b := d.batch([]int{0, 1}, 1, nil)
		run(t, th, func(s *torch.Scope) {
			logits, _, _, _ := m.Sample(s, d.c, b)
			want.logits = logits.ToFloat32s()
		})
		if got := d.step(t, m, b); !slices.Equal(got.logits, want.logits) {
			t.Errorf("step %d: the logits differ from those without graphs", i)
		}
		if n := len(d.c.graphs.list); n != 1 {
			t.Errorf("step %d: %d graphs, want 1", i, n)
		}
	}
}

// TestStepGraphsAreBounded checks that the graph that was not used for the longest time is dropped.
func TestStepGraphsAreBounded(t *testing.T) {
	th := graphThread(t)
	m := openTiny(t, th, "llama-tied", torch.Float32)
	d := newDecoding(t, m, 1)
	run(t, th, func(s *torch.Scope) {
		kind := func(i int) stepKind { return stepKind{rows: 1, longest: contextUnit + i} }
		for i := range maxGraphs {
			d.c.graph(m, s, kind(i))
		}
		for _, tt := range []struct {
			kind  int
			fresh bool
		}{{0, false}, {maxGraphs, true}, {0, false}, {2, false}, {1, true}} {
			if _, fresh := d.c.graph(m, s, kind(tt.kind)); fresh != tt.fresh || len(d.c.graphs.list) != maxGraphs {
				t.Errorf("kind %d: new is %v, want %v; %d graphs, want %d", tt.kind, fresh, tt.fresh, len(d.c.graphs.list), maxGraphs)
			}
		}
	})
}

func TestStepKinds(t *testing.T) {
	for n, want := range map[int]int{1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 8: 8, 9: 16, 33: 40, 256: 256, 257: 272, 512: 512} {
		if got := graphRows(n); got != want {
			t.Errorf("%d sequences: %d rows, want %d", n, got, want)
		}
	}
	for n, want := range map[int]int{1: 512, 512: 512, 513: 1024, 1025: 2048, 5000: 8192} {
		if got := graphContext(n); got != want {
			t.Errorf("%d tokens: a context of %d, want %d", n, got, want)
		}
	}
}
