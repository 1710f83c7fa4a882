package algo

import (
	"maps"
	"slices"

	"github.com/openmanus/openmanus/algo/advantage"
	"github.com/openmanus/openmanus/algo/correction"
	"github.com/openmanus/openmanus/algo/kl"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/loss"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
)

// advantages turns rewards into advantages and returns the rows to learn from. It
// subtracts the KL from the rewards, estimates advantages, leaves out groups without
// spread, resamples rows (PF-PPO), and rejects tokens by rollout correction.
func (p *policyGradient) advantages(step int, rows []data.Row, m Metrics) ([]data.Row, error) {
	if p.klReward != nil && len(rows) > 0 {
		mean, err := kl.InReward(rows, p.o.KLReward.Type, p.klReward.Coef)
		if err != nil {
			return nil, err
		}
		m[track.CriticKL], m[track.CriticKLCoeff] = mean, p.klReward.Coef
		spans, err := data.EpisodeSpans(rows)
		if err != nil {
			return nil, err
		}
		p.klReward.Update(mean, len(spans))
	}
	if w := p.o.Correction.Weights; w != nil && p.o.Policy.Loss != loss.Bypass {
		if err := w.Apply(rows, m); err != nil {
			return nil, err
		}
	}
	e, before := p.estimator, episodesIn(rows)
	if p.o.DropZeroSpread && (e.InGroup || e.KeepZeroSpread) {
		var singles int
		rows, singles = DropSingles(rows)
		m[track.DroppedRows], m[track.SingleGroups] = float64(before-episodesIn(rows)), float64(singles)
	}
	o := p.o.EstimatorOpts
	o.InvalidActionPenalty = p.o.InvalidActionPenalty
	if err := advantage.Compute(p.o.Estimator, rows, o); err != nil {
		return nil, err
	}
	batchMetrics, err := BatchMetrics(rows)
	if err != nil {
		return nil, err
	}
	maps.Copy(m, batchMetrics)
	if p.o.DropZeroSpread && e.Grouped && !e.KeepZeroSpread {
		kept, groups, err := DropZeroSpread(rows, GroupMetrics[p.o.FilterMetric])
		if err != nil {
			return nil, err
		}
		m[track.DroppedRows] = float64(before - episodesIn(kept))
		m[track.SingleGroups] = float64(groups.Single)
		rows = kept
	}
	if p.o.PFPPO != "" {
		rows, err = advantage.Resample(rows, p.o.PFPPO, p.o.EstimatorOpts.Params, p.o.Seed, uint64(step))
		if err != nil {
			return nil, err
		}
	}
	if !p.o.Correction.on() {
		return rows, nil
	}
	if err := correction.Diagnose(rows, m); err != nil {
		return nil, err
	}
	if len(p.o.Correction.Rules) == 0 {
		return rows, nil
	}
	return correction.Reject(rows, p.o.Correction.Rules, m)
}

// diagnoseBypass writes the diagnostics of an update with loss.Bypass. No old log-probs are
// computed before such an update, so diagnoseBypass uses the log-probs that each mini-batch
// of the first pass had before its optimiser step. Rows of skipped steps have no log-probs.
func diagnoseBypass(rows []data.Row, m Metrics) error {
	complete, err := completeEpisodes(rows, learner.OldLogProbs)
	if err != nil {
		return err
	}
	return correction.Diagnose(complete, m)
}

// completeEpisodes returns the episodes in which every context with a token in the loss has the field.
// In contexts without such a token a missing field becomes zeros. Rows of skipped steps lack the field.
func completeEpisodes(rows []data.Row, field func(*data.Row) *[]float32) ([]data.Row, error) {
	spans, err := data.EpisodeSpans(rows)
	if err != nil {
		return nil, err
	}
	var complete []data.Row
	for _, span := range spans {
		episode := slices.Clone(rows[span[0]:span[1]])
		lacks := func(r data.Row) bool { return *field(&r) == nil && learner.LossTokens([]data.Row{r}) > 0 }
		if slices.ContainsFunc(episode, lacks) {
			continue
		}
		for i := range episode {
			if values := field(&episode[i]); *values == nil {
				*values = make([]float32, len(episode[i].Tokens))
			}
		}
		complete = append(complete, episode...)
	}
	return complete, nil
}
