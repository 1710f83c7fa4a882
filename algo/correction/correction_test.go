package correction

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/data"
)

// specRows returns the inputs of spec 12.4, with one token outside the mask before each row.
func specRows() []data.Row {
	masks := [][]uint8{{1, 1, 0, 1, 1}, {1, 1, 1, 1, 0}, {1, 0, 0, 1, 1}, {1, 1, 1, 0, 0}}
	old := [][]float32{{-1, -2, -.5, -.1, -3}, {-.7, -.6, -.5, -.4, -.3}, {-2, -2, -2, -2, -2}, {-.2, -.4, -.6, -.8, -1}}
	recorded := [][]float32{{-1.1, -1.9, -.5, -.1, -3.2}, {-.7, -.8, -.5, -.5, -.3}, {-2, -2, -2, -2.2, -1.9}, {-.2, -.3, -.6, -.8, -1}}
	rows := make([]data.Row, 4)
	for i := range rows {
		rows[i] = data.Row{
			UID: "a", Mask: append([]uint8{0}, masks[i]...), OldLogProbs: append([]float32{0}, old[i]...),
			RolloutLogProbs: append([]float32{0}, recorded[i]...),
		}
	}
	return rows
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-5) {
		t.Errorf("%s is %g, want %g", what, got, want)
	}
}

func TestWeights(t *testing.T) {
	for _, c := range []struct {
		w    Weights
		want [][]float64
	}{
		{
			Weights{Level: Token, Cap: 1.2},
			[][]float64{{1.105171, .904837, 0, 1, 1.2}, {1, 1.2, 1, 1.105171, 0}, {1, 0, 0, 1.2, .904837}, {1, .904837, 1, 0, 0}},
		},
		{
			Weights{Level: Sequence, Cap: 1.2},
			[][]float64{{1.2, 1.2, 0, 1.2, 1.2}, {1.2, 1.2, 1.2, 1.2, 0}, {1.105171, 0, 0, 1.105171, 1.105171}, {.904837, .904837, .904837, 0, 0}},
		},
	} {
		t.Run(c.w.Level, func(t *testing.T) {
			rows, m := specRows(), map[string]float64{}
			if err := c.w.Apply(rows, m); err != nil {
				t.Fatal(err)
			}
			sum, n, perRow := 0.0, 0.0, 0.0
			for i := range rows {
				for j, want := range c.want[i] {
					near(t, fmt.Sprintf("weight[%d][%d]", i, j), float64(rows[i].Weights[j+1]), want)
					sum += want
					n += float64(rows[i].Mask[j+1])
				}
				perRow += c.want[i][0]
			}
			// Normalised weights are divided by their mean, over tokens or over rows.
			mean := sum / n
			if c.w.Level == Sequence {
				mean = perRow / 4
			}
			c.w.Normalize = true
			if err := c.w.Apply(rows, m); err != nil {
				t.Fatal(err)
			}
			near(t, "normalised weight", float64(rows[0].Weights[1]), c.want[0][0]/mean)
			near(t, "the factor", m["rollout_corr/rollout_is_batch_norm_factor"], mean)
		})
	}
	if err := (Weights{Level: "turn", Cap: 2}).Apply(specRows(), map[string]float64{}); err == nil {
		t.Error("an unknown level was accepted")
	}
}

// TestWeightMetrics checks that the metrics of the weights have the names and values of
// compute_is_metrics of verl 0.9.1.
func TestWeightMetrics(t *testing.T) {
	for _, c := range []struct {
		w    Weights
		want map[string]float64
	}{
		{Weights{Level: Token, Cap: 1.2}, map[string]float64{
			"mean": 1.03749, "ratio_fraction_high": 0.214286, "ratio_fraction_low": 0.0, "max": 1.2, "min": 0.904837,
			"std": 0.103376, "eff_sample_size": 0.990169, "seq_mean": 1.033005, "seq_std": 0.046358, "seq_max": 1.076293,
			"seq_min": 0.968279, "seq_max_deviation": 0.076293, "seq_fraction_high": 0.0, "seq_fraction_low": 0.0,
		}},
		{Weights{Level: Sequence, Cap: 1.2}, map[string]float64{
			"mean": 1.11643, "max": 1.349859, "min": 0.904837, "ratio_fraction_high": 0.5, "ratio_fraction_low": 0.0,
			"std": 0.11667, "eff_sample_size": 0.989197, "seq_mean": 1.102502, "seq_std": 0.139152, "seq_max": 1.2,
			"seq_min": 0.904837, "seq_max_deviation": 0.2, "seq_fraction_high": 0.5, "seq_fraction_low": 0.0,
		}},
		{Weights{Level: Token, Cap: 1.1}, map[string]float64{
			"mean": 1.015322, "ratio_fraction_high": 0.357143, "ratio_fraction_low": 0.214286, "max": 1.1, "min": 0.904837,
			"std": 0.072644, "eff_sample_size": 0.994907, "seq_mean": 1.011525, "seq_std": 0.03495, "seq_max": 1.05,
			"seq_min": 0.968279, "seq_max_deviation": 0.05, "seq_fraction_high": 0.0, "seq_fraction_low": 0.0,
		}},
		{Weights{Level: Sequence, Cap: 1.1}, map[string]float64{
			"mean": 1.058179, "max": 1.349859, "min": 0.904837, "ratio_fraction_high": 0.75, "ratio_fraction_low": 0.25,
			"std": 0.08008, "eff_sample_size": 0.994306, "seq_mean": 1.051209, "seq_std": 0.097581, "seq_max": 1.1,
			"seq_min": 0.904837, "seq_max_deviation": 0.1, "seq_fraction_high": 0.75, "seq_fraction_low": 0.25,
		}},
	} {
		t.Run(fmt.Sprintf("%s %g", c.w.Level, c.w.Cap), func(t *testing.T) {
			m := map[string]float64{}
			if err := c.w.Apply(specRows(), m); err != nil {
				t.Fatal(err)
			}
			for name, want := range c.want {
				got, ok := m["rollout_corr/rollout_is_"+name]
				if !ok {
					t.Errorf("%s is missing", name)
				}
				near(t, name, got, want)
			}
			if len(m) != len(c.want) {
				t.Errorf("metrics %v, want only the expected ones", m)
			}
		})
	}
}

// TestIcePopOfVerl checks that the weights and metrics of IcePop equal the results of verl's
// compute_rollout_correction_weights (testdata/make_goldens.py).
func TestIcePopOfVerl(t *testing.T) {
	text, err := os.ReadFile("testdata/icepop.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Level        string
		Lower, Upper float64
		Normalize    bool
		Weights      [][]float64
		Metrics      map[string]float64
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(fmt.Sprint(c.Level, c.Lower, c.Upper, c.Normalize), func(t *testing.T) {
			rows, m := specRows(), map[string]float64{}
			if err := (Weights{Level: c.Level, Cap: c.Upper, Floor: c.Lower, Normalize: c.Normalize}).Apply(rows, m); err != nil {
				t.Fatal(err)
			}
			for i := range rows {
				for j, want := range c.Weights[i] {
					near(t, fmt.Sprintf("weight[%d][%d]", i, j), float64(rows[i].Weights[j+1]), want)
				}
			}
			for name, want := range c.Metrics {
				got, ok := m["rollout_corr/"+name]
				if !ok {
					t.Errorf("%s is missing", name)
				}
				near(t, name, got, want)
			}
			if len(m) != len(c.Metrics) {
				t.Errorf("metrics %v, want only the expected ones", m)
			}
		})
	}
}

// TestIcePopRejectsAll checks that if IcePop rejects every token, the weights are 0 and all metrics
// are finite.
func TestIcePopRejectsAll(t *testing.T) {
	for _, level := range []string{Token, Sequence} {
		rows, m := specRows(), map[string]float64{}
		if err := (Weights{Level: level, Floor: 2, Cap: 3, Normalize: true}).Apply(rows, m); err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			for j, w := range rows[i].Weights {
				if w != 0 {
					t.Errorf("%s: weight[%d][%d] is %g, want 0", level, i, j, w)
				}
			}
		}
		for name, v := range m {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("%s: %s is %g, want a finite number", level, name, v)
			}
		}
		near(t, "the share outside", m["rollout_corr/rollout_is_oob_ratio"], 1)
	}
}

func TestDiagnose(t *testing.T) {
	m := map[string]float64{}
	if err := Diagnose(specRows(), m); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{
		"training_ppl": 3.80232, "rollout_ppl": 3.945354, "kl": -.035714, "k3_kl": .006362, "log_ppl_diff": -.03125,
		"ppl_ratio": .970021, "chi2_token": .098177, "chi2_seq": .338519,
	} {
		near(t, name, m["rollout_corr/"+name], want)
	}
	noSampled := specRows()[:1]
	noSampled[0].Mask = make([]uint8, 6)
	m = map[string]float64{}
	if err := Diagnose(noSampled, m); err != nil || len(m) != 0 {
		t.Errorf("Diagnose of a row without a sampled token wrote %v, error %v; want no metrics", m, err)
	}
	noSampled[0].OldLogProbs = nil
	if err := Diagnose(noSampled, m); err == nil {
		t.Error("a row without old log-probs was accepted")
	}
}

func TestReject(t *testing.T) {
	for _, c := range []struct {
		rules           string // name=threshold, …
		want            string // the masks after the rejection
		masked, touched float64
	}{
		{"token_k3=.02", "11010 10110 10001 11100", .214286, .75},
		{"token_k2=.0199", "11010 10110 10001 11100", .214286, .75},
		{"token_k1=1.1051", "00010 10100 10000 10100", 8. / 14, 1},
		{"token_k1=.9_1.2", "11010 10110 10001 11100", 3. / 14, .75},
		{"seq_sum_k1=1.2", "00000 00000 10011 11100", 8. / 14, .5},
		{"seq_sum_k1=.95_1.2", "00000 00000 00000 11100", 11. / 14, .75},
		{"seq_mean_k1=1.04", "00000 00000 10011 11100", 8. / 14, .5},
		{"seq_mean_k2=.006", "00000 00000 00000 11100", 11. / 14, .75},
		{"seq_mean_k3=.007", "00000 11110 00000 11100", 7. / 14, .5},
		{"seq_max_k3=.01", "00000 00000 00000 11100", 11. / 14, .75},
		{"seq_max_k2=.01", "00000 00000 00000 11100", 11. / 14, .75},
		{"seq_sum_k2=.02", "00000 00000 00000 11100", 11. / 14, .75},
		{"seq_sum_k3=.03", "00000 11110 10011 11100", 4. / 14, .25},
		{"token_k3=.02 token_k1=.95_1.2", "01010 10100 10001 11100", 5. / 14, .75},
	} {
		t.Run(c.rules, func(t *testing.T) {
			var rules []Rule
			for part := range strings.FieldsSeq(c.rules) {
				name, threshold, _ := strings.Cut(part, "=")
				r, err := ParseRule(name, threshold)
				if err != nil {
					t.Fatal(err)
				}
				rules = append(rules, r)
			}
			rows, m := specRows(), map[string]float64{}
			kept, err := Reject(rows, rules, m)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range kept {
				s := ""
				for _, k := range kept[i].Mask[1:] {
					s += fmt.Sprint(k)
				}
				got = append(got, s)
				if rows[i].Mask[1] != 1 {
					t.Error("the original mask of the row was changed")
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("the masks are %v, want %s", got, c.want)
			}
			near(t, "masked fraction", m["rollout_corr/rollout_rs_masked_fraction"], c.masked)
			near(t, "sequences touched", m["rollout_corr/rollout_rs_seq_masked_fraction"], c.touched)
		})
	}
}

func TestParseRule(t *testing.T) {
	for _, name := range RuleNames() {
		if _, err := ParseRule(name, "2"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range [][2]string{
		{"token_k4", "2"}, {"seq_max_k1", "2"}, {"token_k3", ""}, {"token_k3", "0"}, {"token_k3", "1_2"}, {"token_k1", "2_1"},
		{"token_k1", ".5"}, {"token_k1", "1_x"}, {"token_k2", "NaN"}, {"token_k2", "Inf"},
	} {
		if _, err := ParseRule(bad[0], bad[1]); err == nil {
			t.Errorf("%s = %q was accepted", bad[0], bad[1])
		}
	}
}
