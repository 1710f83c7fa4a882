package algo

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/reward"
)

// scored holds sums over the scored episodes of a step's batches.
type scored struct {
	withoutReply int                       // number of episodes in which the model sampled nothing
	turns, valid int                       // number of turns that the environment evaluated, and of turns with a valid action
	parts        map[string][]reward.Score // scores of each component, by its name
}

func (s *scored) addTo(m Metrics) {
	m[track.WithoutReply] = float64(s.withoutReply)
	if s.turns > 0 {
		m[track.ValidActionRatio] = float64(s.valid) / float64(s.turns)
	}
	maps.Copy(m, reward.Composed{Parts: s.parts}.Metrics())
}

// score turns episodes into rows with token rewards. It leaves out episodes that were
// lost to the infrastructure or have no sampled token, and counts the episodes without sampled tokens.
func (p *player) score(ctx context.Context, episodes []*data.Episode, found *scored) ([]data.Row, error) {
	var usable []*data.Episode
	for _, ep := range episodes {
		switch {
		case !ep.Outcome.Trainable():
		case ep.SampledTokens() == 0: // the first messages fill the context
			found.withoutReply++
		default:
			usable = append(usable, ep)
		}
	}
	rows, err := data.Rows(usable)
	if err != nil {
		return nil, err
	}
	scores, parts, turns, err := p.scores(ctx, usable, found)
	if err != nil {
		return nil, err
	}
	return rows, data.ByEpisode(rows, func(episodes []data.Row) error {
		for i := range episodes {
			r := &episodes[i]
			signal := p.signal.Of(usable[i])
			r.Score, r.EnvReward = scores[i], signal(r.Turns)
			paid := reward.Paid{Mask: r.Mask, Turns: r.Turns, Signal: signal, Shares: turns[i], Gamma: p.o.AllocationGamma}
			paid.Score = reward.LessTurns(r.Score, r.Turns, p.o.TurnPenalty)
			if !p.estimator.PenaltyByTurn {
				paid.Score = reward.LessInvalid(paid.Score, r.Turns, p.o.InvalidActionPenalty)
			}
			if p.estimator.Needs.Parts {
				r.Parts = p.withPenalties(parts[i], r.Turns)
			}
			if r.Rewards, err = p.allocate(paid); err != nil {
				return fmt.Errorf("row %s: %w", r.UID, err)
			}
			if p.estimator.PenaltyByTurn {
				reward.PayInvalid(r.Rewards, r.Turns, p.o.InvalidActionPenalty)
			}
		}
		return nil
	})
}

// withPenalties adds the penalties to the parts of a score, with their coefficients as
// weights.
func (p *player) withPenalties(parts []data.RewardPart, turns []data.Turn) []data.RewardPart {
	if w := p.o.TurnPenalty; w != 0 {
		parts = append(parts, data.RewardPart{Weight: w, Value: reward.LessTurns(0, turns, 1)})
	}
	if w := p.o.InvalidActionPenalty; w != 0 {
		parts = append(parts, data.RewardPart{Weight: w, Value: reward.LessInvalid(0, turns, 1)})
	}
	return parts
}

// scores returns the score of each episode, the parts of the score, and the shares of
// the episode's turns in it, from the environment's signal or from the score functions.
// The signal gives no shares; the allocation computes them.
func (p *player) scores(ctx context.Context, episodes []*data.Episode, found *scored) ([]float64, [][]data.RewardPart, [][]float64, error) {
	out, parts := make([]float64, len(episodes)), make([][]data.RewardPart, len(episodes))
	samples := make([]reward.Sample, len(episodes))
	for i, ep := range episodes {
		samples[i] = reward.SampleOf(ep, p.signal)
		out[i] = samples[i].EnvReward
		valid, judged := reward.ValidActions(ep.Turns)
		found.valid += valid
		found.turns += judged
	}
	if p.o.Scorer == nil {
		for i, score := range out {
			parts[i] = []data.RewardPart{{Weight: 1, Value: score}}
		}
		return out, parts, make([][]float64, len(out)), nil
	}
	composed, err := p.scoreOnce(ctx, ctx, samples)
	if err != nil {
		return nil, nil, nil, err
	}
	if found.parts == nil {
		found.parts = map[string][]reward.Score{}
	}
	for name, scores := range composed.Parts {
		found.parts[name] = slices.Concat(found.parts[name], scores)
	}
	for _, c := range p.o.Scorer.Components {
		for i, score := range composed.Parts[c.Name] {
			parts[i] = append(parts[i], data.RewardPart{Weight: c.Weight, Value: score.Value})
		}
	}
	return composed.Scores, parts, composed.Turns, nil
}
