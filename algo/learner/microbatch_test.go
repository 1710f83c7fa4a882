package learner

import (
	"slices"
	"testing"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch/torchtest"
)

func TestSplit(t *testing.T) {
	rows := make([]data.Row, 5)
	for i := range rows {
		rows[i].Tokens = make([]int32, 10*(i+1))
	}
	sizes := func(m MicroBatching) (out []int) {
		batches, err := m.Split(rows)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range batches {
			out = append(out, len(b))
		}
		return out
	}
	for _, c := range []struct {
		m    MicroBatching
		want []int
	}{
		{MicroBatching{}, []int{5}},
		{MicroBatching{Rows: 2}, []int{2, 2, 1}},
		{MicroBatching{MaxTokens: 60}, []int{3, 1, 1}},
		{MicroBatching{Rows: 2, MaxTokens: 60}, []int{2, 1, 1, 1}},
		{MicroBatching{cut: 60}, []int{3, 1, 1}},
		{MicroBatching{cut: 5}, []int{1, 1, 1, 1, 1}},
		{MicroBatching{cut: 5, MaxTokens: 60}, []int{3, 1, 1}},
		{MicroBatching{Rows: 2, cut: 60}, []int{2, 1, 1, 1}},
	} {
		got := sizes(c.m)
		if len(got) != len(c.want) {
			t.Fatalf("%+v: Split gives %v, want %v", c.m, got, c.want)
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Fatalf("%+v: Split gives %v, want %v", c.m, got, c.want)
			}
		}
	}
	if _, err := (MicroBatching{MaxTokens: 40}).Split(rows); err == nil {
		t.Fatal("a row over the budget was accepted")
	}
}

// TestSplitOfFamilies checks that a pass ends early only where this computes few tokens again.
func TestSplitOfFamilies(t *testing.T) {
	m := MicroBatching{SharePrefix: true, cut: CPUTokens}
	for _, c := range []struct{ prefix, rest, rows, want int }{
		{prefix: 1000, rest: 1000, rows: 8, want: 1}, // a pass of 9000 tokens; two would have 10000
		{prefix: 15, rest: 485, rows: 8, want: 4},
		{prefix: 0, rest: 500, rows: 8, want: 4},
		{prefix: 0, rest: 10, rows: 8, want: 1},
	} {
		var rows []data.Row
		shared := make([]int, c.rows)
		for i := range shared {
			rows = append(rows, data.Row{Tokens: make([]int32, c.prefix+c.rest)})
			shared[i] = min(i, 1) * c.prefix
		}
		batches, err := m.split(rows, shared)
		if err != nil || len(batches) != c.want {
			t.Errorf("%d rows of %d + %d tokens: %d passes and error %v, want %d", c.rows, c.prefix, c.rest, len(batches), err, c.want)
		}
	}
}

// TestMostTokens checks the largest pass against those of rows of the largest length.
func TestMostTokens(t *testing.T) {
	for _, m := range []MicroBatching{{}, {Rows: 3}, {MaxTokens: 3000}} {
		for _, length := range []int{100, 700, 1500, 3000} {
			for _, cpu := range []bool{true, false} {
				most, with := 0, m
				if cpu {
					with.cut = CPUTokens
				}
				rows := make([]data.Row, 40)
				for i := range rows {
					rows[i].Tokens = make([]int32, length)
				}
				batches, err := with.Split(rows)
				if err != nil {
					t.Fatal(err)
				}
				for _, b := range batches {
					most = max(most, len(b)*length)
				}
				if got := m.MostTokens(len(rows), length, cpu); got < most || got >= most+length {
					t.Errorf("%+v, rows of %d tokens, on a CPU: %v: at most %d tokens, the largest pass has %d", m, length, cpu, got, most)
				}
			}
		}
	}
}

// TestLongPassesOnCPU counts the passes of an update whose micro-batch has more tokens than a CPU takes at once.
func TestLongPassesOnCPU(t *testing.T) {
	th := torchtest.Thread(t)
	rows := make([]data.Row, 4)
	for i := range rows {
		rows[i].Tokens, rows[i].Mask = make([]int32, 500), make([]uint8, 500)
	}
	var sizes []int
	must(t, eachMicroBatch(t.Context(), th, rows, MicroBatching{Rows: 4}, false, func(p *packed) error {
		sizes = append(sizes, len(p.rows))
		return nil
	}))
	want := []int{4}
	if th.Device().IsCPU() {
		want = []int{2, 2}
	}
	if !slices.Equal(sizes, want) {
		t.Errorf("passes of %v rows, want %v", sizes, want)
	}
}
