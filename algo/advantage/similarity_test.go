package advantage

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

// lcs returns the length of the longest common subsequence, computed from the table of all prefixes.
func lcs(a, b []rune) int {
	row := make([]int, len(b)+1)
	for _, x := range a {
		diagonal := 0
		for j, y := range b {
			above := row[j+1]
			if x == y {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(row[j], above)
			}
			diagonal = above
		}
	}
	return row[len(b)]
}

func TestSimilar(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	text := func(n int) []rune {
		out := make([]rune, n)
		for i := range out {
			out[i] = []rune("abcä")[r.IntN(4)]
		}
		return out
	}
	both := map[bool]int{}
	for range 3000 {
		a := text(r.IntN(24))
		b := text(r.IntN(24))
		if r.IntN(2) == 0 { // b is a with a few changes
			b = append(append([]rune{}, a...), text(r.IntN(3))...)
			if len(a) > 0 {
				b[r.IntN(len(a))] = 'x'
			}
		}
		threshold := []float64{.5, .6, .75, .9, .95, 1}[r.IntN(6)]
		want := 2*float64(lcs(a, b)) >= threshold*float64(len(a)+len(b))-1e-9
		both[want]++
		if got := similar(a, b, threshold); got != want {
			t.Fatalf("similar(%q, %q, %g) = %v, want %v", string(a), string(b), threshold, got, want)
		}
		if similar(a, b, threshold) != similar(b, a, threshold) {
			t.Fatalf("the result for %q and %q depends on their order", string(a), string(b))
		}
	}
	if both[true] < 300 || both[false] < 300 {
		t.Errorf("counts of the results %v, want at least 300 of each", both)
	}
	long := []rune(strings.Repeat("the room is dark. ", 50_000))
	other := []rune(strings.Repeat("a door leads west. ", 50_000))
	if similar(long, other, .95) || !similar(long, append(long[:len(long):len(long)], other[:1000]...), .95) {
		t.Error("for long texts similar is true for different texts, or false for texts that are nearly equal")
	}
}

// TestGiGPOOfSimilarObservations checks that with a threshold below 1 a turn joins the first group
// whose first observation is similar enough.
func TestGiGPOOfSimilarObservations(t *testing.T) {
	episode := func(first string, reward float32) data.Row {
		return data.Row{
			UID: "a", Tokens: make([]int32, 1), Mask: []uint8{1}, Rewards: []float32{reward}, FirstObservation: first,
			Turns: []data.Turn{{Start: 0, End: 1}},
		}
	}
	const seen = "You are in the kitchen. There is a table. Steps left: "
	for _, c := range []struct {
		name      string
		threshold float64
		want      [][]float64 // A^E is 1/4, -3/4, 1/4, 1/4; A^S is added
	}{
		{"equal", 1, [][]float64{{.25}, {-.75}, {.25}, {.25}}},
		{"similar", .95, [][]float64{{.25 + .5}, {-.75 - .5}, {.25}, {.25}}},
	} {
		rows := []data.Row{episode(seen+"9", 1), episode(seen+"8", 0), episode("You see nothing.", 1), episode("", 1)}
		o := Options{Params: registry.Values{"norm_by_std": false, "gamma": 1.0, "gigpo_step_weight": 1.0, "gigpo_norm": MeanNorm, "gigpo_similarity_thresh": c.threshold}}
		if err := Compute("gigpo", rows, o); err != nil {
			t.Fatal(err)
		}
		masked(t, c.name, rows, advantages, c.want)
	}
	for _, bad := range []float64{.4, 1.5} {
		if err := Compute("gigpo", []data.Row{episode("a", 1)}, Options{Params: registry.Values{"norm_by_std": false, "gigpo_norm": MeanNorm, "gigpo_similarity_thresh": bad}}); err == nil {
			t.Errorf("a threshold of %g was accepted", bad)
		}
	}
}
