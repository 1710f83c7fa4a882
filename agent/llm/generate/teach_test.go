package generate

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// teacher returns recorded tokens by position and records the differences.
type teacher struct {
	recorded    map[int]int32
	differences []difference
}

type difference struct {
	position        int
	recorded, drawn int32
	margin          float64
}

func (t *teacher) Recorded(d engine.Draw) (int32, bool) {
	id, ok := t.recorded[d.Position]
	return id, ok
}

func (t *teacher) Differs(d engine.Draw, recorded, drawn int32, margin float64) {
	t.differences = append(t.differences, difference{d.Position, recorded, drawn, margin})
}

// TestTeacher checks the replay of a recorded reply. The unchanged reply gives
// no difference. For a changed token, the backend reports a difference and
// returns the model's log-prob of the changed token.
func TestTeacher(t *testing.T) {
	m := openModel(t, torch.Float32)
	prompt := ids(20, 1)
	free := newBackend(t, m, Options{KVTokens: 128, BlockSize: 16})
	tokens, logps := rollout(t, free, 1, prompt, 100, 12, 0.7)

	as := func(tokens []int32) (*teacher, []int32, []float32) {
		teach := &teacher{recorded: map[int]int32{}}
		for i, id := range tokens {
			teach.recorded[len(prompt)+i] = id
		}
		b := newBackend(t, m, Options{KVTokens: 128, BlockSize: 16, Teacher: teach})
		got, lps := rollout(t, b, 1, prompt, 100, 12, 0.7)
		return teach, got, lps
	}
	teach, got, lps := as(tokens)
	if len(teach.differences) != 0 || !slices.Equal(got, tokens) || !slices.Equal(lps, logps) {
		t.Errorf("replay of the unchanged reply: differences %+v, tokens %v", teach.differences, got)
	}
	if teach, got, _ := as(nil); len(teach.differences) != 0 || !slices.Equal(got, tokens) {
		t.Errorf("teacher without tokens: differences %+v, tokens %v", teach.differences, got)
	}

	changed := slices.Clone(tokens)
	changed[5] = (tokens[5] + 1) % int32(m.Config.VocabSize)
	teach, got, lps = as(changed)
	if !slices.Equal(got, changed) {
		t.Errorf("replay of a changed reply: got tokens %[2]v, want %[1]v", changed, got)
	}
	if len(teach.differences) == 0 {
		t.Fatal("the changed token gave no difference")
	}
	if h := teach.differences[0]; h.position != len(prompt)+5 || h.recorded != changed[5] || h.drawn != tokens[5] || !(h.margin > 0) {
		t.Errorf("got difference %+v, want drawn %d, recorded %d, position %d", h, tokens[5], changed[5], len(prompt)+5)
	}
	want, err := m.LogProbs(context.Background(), float64(float32(0.7)), append(slices.Clone(prompt), changed...))
	if err != nil {
		t.Fatal(err)
	}
	for i, lp := range want[0][len(prompt)-1:] {
		if d := math.Abs(float64(lp - lps[i])); !(d <= tolerance) {
			t.Errorf("log-prob of token %d is off by %.2g", i, d)
		}
	}

	changed = slices.Clone(tokens)
	changed[5] = 1 << 20
	if teach, got, _ := as(changed); !slices.Equal(got, tokens) || len(teach.differences) != 1 || !math.IsInf(teach.differences[0].margin, 1) {
		t.Errorf("invalid recorded token: differences %+v, tokens %v", teach.differences, got)
	}
}

// TestMargin checks that the sampler draws the recorded token if its logit grows by
// the margin, but not if it grows by half of the margin.
func TestMargin(t *testing.T) {
	th, err := torch.NewThread(torchtest.Device(t))
	if err != nil {
		t.Fatal(err)
	}
	defer th.Close()
	const n = 37
	draw := func(z []float32, row torch.SampleRow) (id int32, lp float32) {
		err := torch.Run(context.Background(), th, func(s *torch.Scope) error {
			got, lps, _ := torch.Sample(s.Float32s(z, 1, n), []torch.SampleRow{row})
			id, lp = got[0], lps[0]
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return id, lp
	}
	cutOff := 0
	for i := range 200 {
		z := make([]float32, n)
		for v := range z {
			z[v] = float32(math.Sin(float64(i*n+v)*1.7) * 3)
		}
		row := torch.SampleRow{Key: uint64(i) * 0x9e3779b97f4a7c15, Position: uint64(i) << 30, Temperature: 0.5 + float32(i%5)/4, TopP: 1}
		switch i % 4 {
		case 1:
			row.Greedy = true
		case 2:
			row.TopK = 5
		case 3:
			row.TopP = 0.6
		}
		drawn, lp := draw(z, row)
		if got := logProb(z, row, drawn); math.Abs(got-float64(lp)) > 1e-5 {
			t.Fatalf("row %d: logProb %g, want %g as from the sampler", i, got, lp)
		}
		recorded := (drawn + 1 + int32(i)%(n-1)) % n
		m := margin(z, row, recorded, drawn)
		if !(m > 0) {
			t.Fatalf("row %d: margin %g, want a positive one", i, m)
		}
		if row.TopP < 1 || row.TopK > 0 {
			// With top-k or top-p, more than the margin may be needed, so only half of the margin is tested below.
			if in, _ := edge(z, row); float64(z[recorded]) < in {
				cutOff++
			}
		} else if more := slices.Clone(z); true {
			more[recorded] += float32(m/scale(row)) + 1e-4
			if id, _ := draw(more, row); id != recorded {
				t.Errorf("row %d: with the margin %g added, got token %d, want %d", i, m, id, recorded)
			}
		}
		less := slices.Clone(z)
		less[recorded] += float32(m / scale(row) / 2)
		if id, _ := draw(less, row); id == recorded {
			t.Errorf("row %d: with half of the margin %g added, the recorded token %d is drawn", i, m, recorded)
		}
	}
	if cutOff < 20 {
		t.Errorf("top-k or top-p excludes the recorded token in %d rows, want at least 20", cutOff)
	}
}
