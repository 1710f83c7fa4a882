package reward

import "github.com/openmanus/openmanus/data"

// LessTurns subtracts penalty from score for every turn with an environment step. A
// success in few turns then scores higher than a success in many, so that a group in
// which every episode succeeds still has different scores. Failures that end at
// the same turn limit stay equal.
//
// Differs from the length penalties of language tasks in: it counts turns, which
// cost environment time, instead of tokens.
func LessTurns(score float64, turns []data.Turn, penalty float64) float64 {
	return score - penalty*float64(len(judged(turns)))
}

// LessInvalid subtracts penalty from score for every turn without a valid action.
// A truncated reply is not penalised.
//
// Source: OpenManus-RL (September 2025), invalid_action_penalty_coef, applied
// before KL and advantages (spec 5.9).
//
// Differs in: the penalty is subtracted from the score of the episode, whose turns share one
// row; upstream has a row per turn. PayInvalid is the variant for estimators that use turns.
func LessInvalid(score float64, turns []data.Turn, penalty float64) float64 {
	for i := range turns {
		if turns[i].Invalid() {
			score -= penalty
		}
	}
	return score
}

// PayInvalid subtracts penalty at the last token of every turn without a valid
// action, for estimators that use turns (spec 5.9, as in OpenManus-RL). Turns
// without tokens are skipped.
func PayInvalid(rewards []float32, turns []data.Turn, penalty float64) {
	for i := range turns {
		if t := &turns[i]; t.Invalid() && t.End > t.Start {
			rewards[t.End-1] -= float32(penalty)
		}
	}
}

// ValidActions returns the number of turns with a valid action, and the number of
// turns with an environment step.
func ValidActions(turns []data.Turn) (valid, all int) {
	for i := range turns {
		if t := &turns[i]; !t.Unjudged {
			all++
			if !t.Invalid() {
				valid++
			}
		}
	}
	return valid, all
}
