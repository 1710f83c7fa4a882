package algo

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
)

// BatchMetrics returns the statistics of spec 2.7 over the rows of an update: scores and
// rewards by episode, advantages, values and returns by token of the loss mask.
func BatchMetrics(rows []data.Row) (map[string]float64, error) {
	m := map[string]float64{}
	return m, data.ByEpisode(rows, func(episodes []data.Row) error {
		batchMetrics(m, episodes)
		return nil
	})
}

func batchMetrics(m map[string]float64, rows []data.Row) {
	var scores, rewards, advantages, values, returns []float64
	sampled, all := 0, 0
	for i := range rows {
		r := &rows[i]
		scores = append(scores, r.Score)
		rewards = append(rewards, r.RewardSum())
		sampled += r.SampledTokens()
		all += len(r.Tokens)
		for t, a := range r.Advantages {
			if r.Mask[t] != 1 {
				continue
			}
			advantages = append(advantages, float64(a))
			if r.Values != nil {
				values = append(values, float64(r.Values[t]))
			}
		}
		for t, x := range r.Returns {
			if r.Mask[t] == 1 {
				returns = append(returns, float64(x))
			}
		}
	}
	spreadOf(m, track.CriticScore, scores)
	spreadOf(m, track.CriticRewards, rewards)
	spreadOf(m, track.CriticAdvantages, advantages)
	spreadOf(m, track.CriticReturns, returns)
	histogram(m, track.AdvantageHistogram, advantages)
	if len(values) > 0 {
		spreadOf(m, track.CriticValues, values)
		left := make([]float64, len(values))
		for i := range values {
			left[i] = returns[i] - values[i]
		}
		m[track.CriticExplainedVar] = 1 - variance(left)/(variance(returns)+1e-5)
	}
	m[track.StateTokens] = float64(sampled)
	if all > 0 {
		m[track.StateCoverage] = float64(sampled) / float64(all)
	}
}

// binEdges separate the bins of advantages, in standard deviations.
var binEdges = []float64{-2, -1, -.5, 0, .5, 1, 2}

// histogram writes the share of xs in each bin under prefix. 0 has a separate bin,
// since a token with advantage 0 has no gradient.
func histogram(m map[string]float64, prefix string, xs []float64) {
	if len(xs) == 0 {
		return
	}
	last := len(binEdges) - 1
	name := func(i int) string { // name of bin i, which ends at edge i
		switch i {
		case 0:
			return fmt.Sprintf("%s/lt_%g", prefix, binEdges[0])
		case last + 1:
			return fmt.Sprintf("%s/ge_%g", prefix, binEdges[last])
		}
		return fmt.Sprintf("%s/%g_%g", prefix, binEdges[i-1], binEdges[i])
	}
	m[prefix+"/zero"] = 0
	for i := range len(binEdges) + 1 {
		m[name(i)] = 0
	}
	for _, x := range xs {
		bin := prefix + "/zero"
		if x != 0 {
			i, at := slices.BinarySearch(binEdges, x)
			if at { // a bin includes its lower edge
				i++
			}
			bin = name(i)
		}
		m[bin] += 1 / float64(len(xs))
	}
}

// lastTurn is the number of turns that TurnEntropy distinguishes. Later turns count as
// turn lastTurn.
const lastTurn = 10

// entropyByTurn writes the mean entropy of the tokens of each reply, by turn.
func entropyByTurn(m map[string]float64, rows []data.Row) {
	var sums, counts [lastTurn]float64
	for i := range rows {
		r := &rows[i]
		if r.Entropies == nil {
			continue
		}
		for n, turn := range r.Turns {
			n = min(n, lastTurn-1)
			for t := turn.Start; t < turn.End; t++ {
				if r.Mask[t] == 1 { // a rejected token has no entropy
					sums[n] += float64(r.Entropies[t])
					counts[n]++
				}
			}
		}
	}
	for n, count := range counts {
		if count > 0 {
			m[fmt.Sprintf("%s/turn_%d", track.TurnEntropy, n+1)] = sums[n] / count
		}
	}
}

// spreadOf writes the mean, maximum and minimum of xs under prefix; nothing if xs is
// empty.
func spreadOf(m map[string]float64, prefix string, xs []float64) {
	if len(xs) == 0 {
		return
	}
	m[prefix+"/mean"] = sum(xs) / float64(len(xs))
	m[prefix+"/max"] = slices.Max(xs)
	m[prefix+"/min"] = slices.Min(xs)
}

// variance returns the unbiased variance; 0 for fewer than two numbers.
func variance(xs []float64) float64 {
	if len(xs) < 2 {
		return 0
	}
	mean, v := sum(xs)/float64(len(xs)), 0.0
	for _, x := range xs {
		v += (x - mean) * (x - mean)
	}
	return v / float64(len(xs)-1)
}

// episodesIn counts the episodes of rows: their first contexts.
func episodesIn(rows []data.Row) int {
	n := 0
	for i := range rows {
		if rows[i].Context == 0 {
			n++
		}
	}
	return n
}

func sum(xs []float64) float64 {
	s := 0.0
	for _, x := range xs {
		s += x
	}
	return s
}

// throughput adds the tokens per second of a step and of its phases. The argument tokens has the
// number of tokens of each phase of the update, without rows that were left out.
func throughput(m Metrics, tokens map[string]float64) {
	sampled, all := m[track.SampledTokens], m[track.RolloutTokens]
	playing := cmp.Or(m[track.PlaySeconds], m[track.Timing("gen")])
	if s := playing; s > 0 {
		m[track.SampledThroughput] = sampled / s
		m[track.TurnThroughput] = m[track.RolloutTurns] / s
	}
	for phase, name := range map[string]string{"old_log_prob": "old_log_prob", "ref": "ref", "update_actor": "update"} {
		if s := m[track.Timing(phase)]; s > 0 {
			m[track.Performance+name+"_tokens_per_s"] = tokens[phase] / s
		}
	}
	if sampled > 0 {
		m[track.TimingPerTokenMS+"/gen"] = 1000 * playing / sampled
	}
	for _, phase := range []string{"ref", "values", "adv", "update_critic", "update_actor"} {
		if s, ok := m[track.Timing(phase)]; ok && all > 0 {
			m[track.TimingPerTokenMS+"/"+phase] = 1000 * s / all
		}
	}
	m[track.TotalTokens] = all
	m[track.TimePerStep] = m[track.TimingStep]
	if s := m[track.TimingStep]; s > 0 {
		m[track.Throughput] = all / s
	}
}
