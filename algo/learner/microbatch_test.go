package learner

import (
	"testing"

	"github.com/openmanus/openmanus/data"
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
