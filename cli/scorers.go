package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/reward"
	"github.com/openmanus/openmanus/reward/external"
)

// openComposer opens the score functions of a [reward] section; nil where the
// environment's signal is the score. The caller closes it.
func (s *State) openComposer(r configs.Reward) (*reward.Composer, error) {
	list := r.Components
	if r.ScoreFn != "" {
		one := configs.DefaultComponent(r.ScoreFn)
		if configs.ExternalScoreFn(r.ScoreFn) {
			one.Name, _, _ = strings.Cut(r.ScoreFn, ":") // of its metrics
		}
		one.Fn, one.FormatScore, one.MinAnswerTags = r.ScoreFn, r.FormatScore, r.MinAnswerTags
		list = []configs.Component{one}
	}
	if len(list) == 0 {
		return nil, nil
	}
	c := &reward.Composer{}
	for _, p := range list {
		scorer, err := s.openScorer(p, r)
		if err != nil {
			return nil, errWith(ExitInput, "", errors.Join(fmt.Errorf("reward component %s: %w", p.Name, err), c.Close()))
		}
		c.Components = append(c.Components, reward.Component{Name: p.Name, Weight: p.Weight, Scorer: scorer})
	}
	return c, nil
}

func (s *State) openScorer(p configs.Component, r configs.Reward) (reward.Scorer, error) {
	if configs.ExternalScoreFn(p.Fn) {
		return external.Open(p.Fn, external.Options{
			Timeout: seconds(r.ScoreTimeoutS), Batch: r.ScoreBatchSize, Dir: s.Dir, Env: s.Environ(), Log: s.Log,
		})
	}
	return reward.Open(p.Fn, scoreParams(p))
}

// scoreParams maps the parameters of a component.
func scoreParams(p configs.Component) reward.Params {
	return reward.Params{
		FormatScore: p.FormatScore, MinAnswerTags: p.MinAnswerTags, Method: p.GSM8KMethod,
		Patterns: p.Patterns, MaxLength: p.MaxLength, MinLength: p.MinLength, PenaltyType: p.PenaltyType, Unit: p.Unit,
		Buffer: p.OverlongBuffer, Factor: p.OverlongFactor,
		AgentGym: reward.AgentGymParams{
			EnvWeight: p.EnvRewardWeight, EnvScale: p.EnvRewardScale, EnvClip: p.EnvRewardClip,
			FormatWeight: p.FormatRewardWeight, FormatMax: p.FormatMaxR, FormatMin: p.FormatMinR, CheckAllTags: p.FormatCheckAllTags,
			LengthWeight: p.LengthRewardWeight, LengthMax: p.LengthMaxR, LengthMin: p.LengthMinR, TargetWords: p.LengthTargetWords,
			Tolerance: p.LengthTolerance, TooShort: p.LengthTooShortFactor, TooLong: p.LengthTooLongFactor, PenaltyIfMissing: p.LengthPenaltyIfMissing,
			SimWeight: p.GTSimRewardWeight, SimMax: p.GTSimMaxR, SimMin: p.GTSimMinR,
		},
	}
}

// checkTruth refuses tasks that a score function cannot judge, before anything
// is played.
func checkTruth(r configs.Reward, tasks []data.Task) error {
	fns := []string{r.ScoreFn}
	for _, p := range r.Components {
		fns = append(fns, p.Fn)
	}
	for _, fn := range fns {
		f, err := reward.Functions.Lookup(fn)
		if err != nil || !f.NeedsTruth { // none, or the user's own
			continue
		}
		for _, t := range tasks {
			if t.GroundTruth == "" {
				return errWith(ExitInput, "give task files with the column reward_model.ground_truth, or choose another score function",
					fmt.Errorf("score function %s: task %s: %w", fn, t.ID, reward.ErrNoGroundTruth))
			}
		}
	}
	return nil
}
