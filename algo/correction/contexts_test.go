package correction

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/data"
)

// splitContexts cuts a row into two contexts of one episode. The second begins at the given token, which must not be sampled.
func splitContexts(r data.Row, at int) []data.Row {
	a, b := r, r
	a.Contexts, b.Contexts, b.Context = 2, 2, 1
	a.Mask, b.Mask = r.Mask[:at], r.Mask[at:]
	a.OldLogProbs, b.OldLogProbs = r.OldLogProbs[:at], r.OldLogProbs[at:]
	a.RolloutLogProbs, b.RolloutLogProbs = r.RolloutLogProbs[:at], r.RolloutLogProbs[at:]
	return []data.Row{a, b}
}

// TestContextsAreOneEpisode checks that an episode of two contexts has the same weights, rejections
// and metrics as the episode in one context.
func TestContextsAreOneEpisode(t *testing.T) {
	uncut := specRows()
	for i := range uncut {
		uncut[i].Sample = i
		uncut[i].Tokens = make([]int32, len(uncut[i].Mask))
	}
	// Rows 0 and 2 have an observation in the middle, so a new context may begin there.
	cut := append(splitContexts(uncut[0], 3), uncut[1])
	cut = append(append(cut, splitContexts(uncut[2], 2)...), uncut[3])

	for _, c := range []struct {
		name string
		do   func(rows []data.Row, m map[string]float64) ([]data.Row, error)
		of   func(r data.Row) any
	}{
		{"token weights", weighed(Weights{Level: Token, Cap: 1.2, Normalize: true}), weights},
		{"sequence weights", weighed(Weights{Level: Sequence, Cap: 1.2, Normalize: true}), weights},
		{"diagnostics", func(rows []data.Row, m map[string]float64) ([]data.Row, error) { return rows, Diagnose(rows, m) }, weights},
		{"token_k3", rejected(t, "token_k3", ".02"), masks},
		{"seq_sum_k1", rejected(t, "seq_sum_k1", "1.2"), masks},
		{"seq_mean_k2", rejected(t, "seq_mean_k2", ".006"), masks},
		{"seq_max_k3", rejected(t, "seq_max_k3", ".01"), masks},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantMetrics, gotMetrics := map[string]float64{}, map[string]float64{}
			want, err := c.do(append([]data.Row(nil), uncut...), wantMetrics)
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.do(append([]data.Row(nil), cut...), gotMetrics)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(wantMetrics, gotMetrics); d != "" || len(wantMetrics) == 0 {
				t.Errorf("metrics (-one context +two contexts):\n%s", d)
			}
			if d := cmp.Diff(flat(want, c.of), flat(got, c.of)); d != "" {
				t.Errorf("tokens (-one context +two contexts):\n%s", d)
			}
		})
	}
	if err := (Weights{Level: Sequence, Cap: 2}).Apply(cut[1:], map[string]float64{}); err == nil {
		t.Error("an episode without its first context was accepted")
	}
}

func weighed(w Weights) func([]data.Row, map[string]float64) ([]data.Row, error) {
	return func(rows []data.Row, m map[string]float64) ([]data.Row, error) { return rows, w.Apply(rows, m) }
}

func rejected(t *testing.T, name, threshold string) func([]data.Row, map[string]float64) ([]data.Row, error) {
	t.Helper()
	r, err := ParseRule(name, threshold)
	if err != nil {
		t.Fatal(err)
	}
	return func(rows []data.Row, m map[string]float64) ([]data.Row, error) { return Reject(rows, []Rule{r}, m) }
}

func weights(r data.Row) any { return r.Weights }
func masks(r data.Row) any   { return r.Mask }

// flat concatenates the values of all rows.
func flat(rows []data.Row, of func(data.Row) any) []float64 {
	var out []float64
	for _, r := range rows {
		switch v := of(r).(type) {
		case []float32:
			for _, x := range v {
				out = append(out, float64(x))
			}
		case []uint8:
			for _, x := range v {
				out = append(out, float64(x))
			}
		}
	}
	return out
}
