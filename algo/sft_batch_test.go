package algo

import (
	"slices"
	"testing"

	"github.com/openmanus/openmanus/data"
)

func TestEveryEpochTakesEveryRowOnce(t *testing.T) {
	for _, c := range []struct {
		rows, batch, epochs int
		want                []int
	}{
		{7, 3, 2, []int{3, 3, 1, 3, 3, 1}},
		{6, 3, 2, []int{3, 3, 3, 3}},
		{2, 8, 2, []int{2, 2}},
	} {
		o := SFTOptions{Rows: make([]data.Row, c.rows), BatchRows: c.batch, Epochs: c.epochs}
		var got []int
		order, err := data.NewOrder(c.rows, true, 1)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[int]int{}
		for step := 1; step <= o.Steps(); step++ {
			got = append(got, o.batch(step))
			for _, i := range order.Next(o.batch(step)) {
				seen[i]++
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d rows in batches of %d: batch sizes %v, want %v", c.rows, c.batch, got, c.want)
		}
		for i, n := range seen {
			if n != c.epochs {
				t.Errorf("%d rows in batches of %d: row %d is taken %d times, want once in each of %d epochs", c.rows, c.batch, i, n, c.epochs)
			}
		}
	}
}
