package algo

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/openmanus/openmanus/data"
)

func TestHistogram(t *testing.T) {
	got := Metrics{}
	histogram(got, "h", []float64{-3, -2, -1.5, -1, -.5, -.1, 0, 0, .1, .5, 1, 2, 2.5, -.6, .9, 1.9})
	want := Metrics{
		"h/lt_-2": 1. / 16, "h/-2_-1": 2. / 16, "h/-1_-0.5": 2. / 16, "h/-0.5_0": 2. / 16, "h/zero": 2. / 16,
		"h/0_0.5": 1. / 16, "h/0.5_1": 2. / 16, "h/1_2": 2. / 16, "h/ge_2": 2. / 16,
	}
	if d := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-12)); d != "" {
		t.Error(d)
	}
	got = Metrics{}
	if histogram(got, "h", nil); len(got) > 0 {
		t.Errorf("histogram without values wrote %v", got)
	}
}

func TestEntropyByTurn(t *testing.T) {
	row := func(entropies []float32, spans ...[2]int) data.Row {
		r := data.Row{Entropies: entropies}
		r.Mask = bytes.Repeat([]byte{1}, len(entropies))
		for _, s := range spans {
			r.Turns = append(r.Turns, data.Turn{Start: s[0], End: s[1]})
		}
		return r
	}
	long := row(make([]float32, 12))
	for i := range long.Entropies {
		long.Entropies[i] = float32(i + 1)
		long.Turns = append(long.Turns, data.Turn{Start: i, End: i + 1})
	}
	got := Metrics{}
	entropyByTurn(got, []data.Row{
		row([]float32{0, 1, 3, 0, 8}, [2]int{1, 3}, [2]int{4, 5}),
		row([]float32{0, 5}, [2]int{1, 2}),
		row(nil, [2]int{1, 2}), // without entropies
	})
	if d := cmp.Diff(Metrics{"actor/entropy/turn_1": 3, "actor/entropy/turn_2": 8}, got); d != "" {
		t.Error(d)
	}
	got = Metrics{}
	rejected := row([]float32{0, 1, 0, 3, 8}, [2]int{1, 4}, [2]int{4, 5})
	rejected.Mask[2], rejected.Mask[4] = 0, 0 // rejected tokens have no entropy
	entropyByTurn(got, []data.Row{rejected})
	if d := cmp.Diff(Metrics{"actor/entropy/turn_1": 2}, got); d != "" {
		t.Errorf("entropies with rejected tokens (-want +got):\n%s", d)
	}
	got = Metrics{}
	entropyByTurn(got, []data.Row{long})
	if got["actor/entropy/turn_9"] != 9 || got["actor/entropy/turn_10"] != 11 || len(got) != lastTurn { // turn_10 is the mean over turns 10, 11 and 12
		t.Errorf("entropies of twelve turns: %v, want 9 for turn 9 and 11 for turn 10", got)
	}
}

func TestReturnsAreOverTheMask(t *testing.T) {
	m, err := BatchMetrics([]data.Row{{
		Tokens: []int32{1, 2, 3}, Mask: []uint8{0, 1, 1}, Rewards: []float32{0, 0, 1}, Advantages: []float32{9, 1, 2}, Returns: []float32{9, 3, 4},
	}})
	must(t, err)
	if m["critic/returns/mean"] != 3.5 || m["critic/returns/max"] != 4 || m["critic/advantages/mean"] != 1.5 {
		t.Errorf("metrics %v, want returns/mean 3.5, returns/max 4 and advantages/mean 1.5", m)
	}
}
