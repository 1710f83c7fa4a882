package correction

// Rejection removes tokens or whole episodes from the loss if the two policies
// differ too much. The statistics of a token are
//
//	k1 = -x,  k2 = x²/2,  k3 = exp(x) - 1 - x
//
// with x as in doc.go. Those of an episode are sums and means over its tokens, and the
// maximum of k2 or k3. k1 must lie between the logarithms of two ratios, k2 and k3 below a
// bound. A token must pass every rule. Source: verl's rollout correction (spec 5.10).
//
// Differs from verl in: advantages are estimated before tokens are removed, so that
// a reward on a rejected token still counts for the tokens before it.

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
)

// Rule is one rejection rule, such as token_k3 or seq_mean_k1.
type Rule struct {
	level, stat  string
	lower, upper float64 // bounds of the statistic
}

// rules lists the names of all rules.
var rules = []string{
	"token_k1", "token_k2", "token_k3", "seq_sum_k1", "seq_sum_k2", "seq_sum_k3",
	"seq_mean_k1", "seq_mean_k2", "seq_mean_k3", "seq_max_k2", "seq_max_k3",
}

// RuleNames lists the rules.
func RuleNames() []string { return slices.Clone(rules) }

// ParseRule parses a rule from its name and its threshold: an upper bound, or for k1
// two ratios "0.5_2". A single ratio "2" means "0.5_2".
func ParseRule(name, threshold string) (Rule, error) {
	if !slices.Contains(rules, name) {
		return Rule{}, fmt.Errorf("unknown rejection rule %q; use one of %s", name, strings.Join(rules, ", "))
	}
	bad := func(want string) (Rule, error) {
		return Rule{}, fmt.Errorf("the threshold of %s is %q, want %s", name, threshold, want)
	}
	at := strings.LastIndexByte(name, '_')
	r := Rule{level: name[:at], stat: name[at+1:], lower: math.Inf(-1)}
	number := func(s string) (float64, bool) {
		v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
		return v, err == nil && v > 0 && !math.IsInf(v, 0)
	}
	first, second, both := strings.Cut(threshold, "_")
	a, ok := number(first)
	if !ok {
		return bad("a number above 0")
	}
	if r.stat != "k1" {
		if both {
			return bad("one number above 0")
		}
		r.upper = a
		return r, nil
	}
	lower, upper := 1/a, a
	if both {
		lower = a
		if upper, ok = number(second); !ok {
			return bad("two ratios such as 0.5_2")
		}
	}
	if lower > upper {
		return bad("a lower ratio that is below the upper one, such as 0.5_2, or one of at least 1")
	}
	r.lower, r.upper = math.Log(lower), math.Log(upper)
	return r, nil
}

func (r Rule) of(x float64) float64 {
	switch r.stat {
	case "k1":
		return -x
	case "k2":
		return x * x / 2
	default:
		return math.Exp(clamp(x)) - 1 - x
	}
}

// keeps reports, for each token of an episode, whether it passes the rule.
func (r Rule) keeps(x []float64) []bool {
	keep := make([]bool, len(x))
	stats := make([]float64, len(x))
	for i, v := range x {
		stats[i] = r.of(v)
		keep[i] = stats[i] >= r.lower && stats[i] <= r.upper
	}
	if r.level == "token" || len(x) == 0 {
		return keep
	}
	value := 0.0
	switch r.level {
	case "seq_sum":
		value = sum(stats)
	case "seq_mean":
		value = sum(stats) / float64(len(x))
	case "seq_max":
		value = slices.Max(stats)
	}
	pass := value >= r.lower && value <= r.upper
	for i := range keep {
		keep[i] = pass
	}
	return keep
}

// Reject returns the rows without the tokens that fail a rule: it clears them in
// copies of the masks. It writes metrics of the rejected tokens.
func Reject(rows []data.Row, rules []Rule, m map[string]float64) ([]data.Row, error) {
	seqs, err := sequences(rows)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(rows)
	fresh := make([]bool, len(rows)) // whether the mask of the row is already a copy
	tokens, masked, sequences, touched := 0.0, 0.0, 0.0, 0.0
	for _, seq := range seqs {
		if len(seq.x) == 0 {
			continue
		}
		rejected := 0
		for _, r := range rules {
			for k, keep := range r.keeps(seq.x) {
				p := seq.at[k]
				if keep || out[p.row].Mask[p.token] == 0 {
					continue
				}
				if !fresh[p.row] {
					out[p.row].Mask, fresh[p.row] = slices.Clone(out[p.row].Mask), true
				}
				out[p.row].Mask[p.token] = 0
				rejected++
			}
		}
		tokens += float64(len(seq.x))
		masked += float64(rejected)
		sequences++
		if rejected > 0 {
			touched++
		}
	}
	if tokens > 0 {
		m[track.RolloutCorrection+"/rollout_rs_masked_fraction"] = masked / tokens
		m[track.RolloutCorrection+"/rollout_rs_seq_masked_fraction"] = touched / sequences
	}
	return out, nil
}
