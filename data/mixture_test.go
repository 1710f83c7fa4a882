package data

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
)

func mixture(t *testing.T, seed uint64, shares ...Share) *Mixture {
	t.Helper()
	m, err := NewMixture(shares, true, seed)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestMixtureOfOne checks that a mixture of one source draws as an Order does, as in runs of one environment.
func TestMixtureOfOne(t *testing.T) {
	o, err := NewOrder(7, true, 42)
	if err != nil {
		t.Fatal(err)
	}
	want := o.Next(30)
	var got []int
	for _, p := range mixture(t, 42, Share{"maze", 7, 1}).Next(30) {
		got = append(got, p.Task)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestMixtureShares(t *testing.T) {
	shares := []Share{{"maze", 5, 1}, {"textcraft", 300, 2.5}, {"only validated", 0, 0}, {"wordle", 40, 0.5}}
	const n = 20000
	m := mixture(t, 1, shares...)
	count := make([]float64, len(shares))
	seen := make([][]int, len(shares))
	for _, p := range m.Next(n) {
		count[p.Source]++
		seen[p.Source] = append(seen[p.Source], p.Task)
	}
	for i, s := range shares {
		want := n * s.Weight / 4
		if off := math.Abs(count[i] - want); off > 5*math.Sqrt(want) {
			t.Errorf("%s: %g of %d draws, want about %g", s.Name, count[i], n, want)
		}
		for e := 0; s.Tasks > 0 && e+s.Tasks <= len(seen[i]); e += s.Tasks {
			epoch := slices.Sorted(slices.Values(seen[i][e : e+s.Tasks]))
			if epoch[0] != 0 || len(slices.Compact(epoch)) != s.Tasks {
				t.Fatalf("%s: an epoch does not draw each task once: %v", s.Name, epoch)
			}
		}
	}
	if slices.Equal(m.Next(50), mixture(t, 2, shares...).Next(50)) {
		t.Error("another seed draws the same tasks")
	}
	equal := mixture(t, 3, Share{"a", 10, 1}, Share{"b", 10, 1}).State()
	if equal.Orders[0].Seed == equal.Orders[1].Seed {
		t.Error("two sources of equal size have the same seed")
	}
}

func TestMixtureResumes(t *testing.T) {
	shares := []Share{{"a", 3, 1}, {"b", 0, 0}, {"c", 11, 2}}
	m := mixture(t, 9, shares...)
	m.Next(17)
	text, err := json.Marshal(m.State())
	if err != nil {
		t.Fatal(err)
	}
	want := m.Next(40)
	var st MixtureState
	if err := json.Unmarshal(text, &st); err != nil {
		t.Fatal(err)
	}
	resumed := mixture(t, 9, shares...)
	if err := resumed.Restore(st); err != nil {
		t.Fatal(err)
	}
	if got := resumed.Next(40); !slices.Equal(got, want) {
		t.Errorf("resumed %v, want %v", got, want)
	}
	for name, c := range map[string]struct {
		shares []Share
		want   string
	}{
		"fewer sources": {shares[:1], "drawing from 3 environments, now there are 1"},
		"more tasks":    {[]Share{{"a", 4, 1}, {"b", 0, 0}, {"c", 11, 2}}, "a: the data changed: the run was drawing from 3 tasks, now there are 4"},
	} {
		if err := mixture(t, 9, c.shares...).Restore(st); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMixtureErrors(t *testing.T) {
	for name, shares := range map[string][]Share{
		"none": nil, "no weight": {{"a", 3, 0}}, "negative": {{"a", 3, -1}}, "no number": {{"a", 3, math.NaN()}},
		"no tasks": {{"a", 0, 1}}, "infinite": {{"a", 3, math.Inf(1)}},
	} {
		if _, err := NewMixture(shares, true, 1); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
