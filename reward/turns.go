package reward

import "github.com/openmanus/openmanus/data"

// LessTurns takes penalty off score for every turn that the environment judged. A success in few turns is
// then worth more than one in many: groups in which every episode succeeds
// still say which was better, and a detour costs something before it costs
// the success. Failures that end at the same limit stay equal.
//
// Differs from the length penalties of language tasks in: it counts
// turns, which cost the environment time, not tokens.
func LessTurns(score float64, turns []data.Turn, penalty float64) float64 {
	return score - penalty*float64(len(judged(turns)))
}

// LessInvalid takes penalty off score for every turn without a valid action. A
// reply that was cut off never came to have one, which is not held against it.
//
// Source: OpenManus-RL (September 2025), invalid_action_penalty_coef, applied
// before KL and advantages (spec 5.9). Differs in: it is taken off the
// episode, whose turns share one row, and not off each turn's own row; for
// estimators that look at turns there is PayInvalid.
func LessInvalid(score float64, turns []data.Turn, penalty float64) float64 {
	for i := range turns {
		if turns[i].Invalid() {
			score -= penalty
		}
	}
	return score
}

// PayInvalid takes penalty off the last token of every turn without a valid
// action, for estimators that look at turns (spec 5.9, as the original does). A
// turn without tokens cannot be paid less.
func PayInvalid(rewards []float32, turns []data.Turn, penalty float64) {
	for i := range turns {
		if t := &turns[i]; t.Invalid() && t.End > t.Start {
			rewards[t.End-1] -= float32(penalty)
		}
	}
}

// ValidActions counts the turns that the environment judged, and those of them
// whose reply held an action that went to it.
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
