package reward

import "github.com/openmanus/openmanus/data"

// LessTurns takes penalty off score for every turn. A success in few turns is
// then worth more than one in many: groups in which every episode succeeds
// still say which was better, and a detour costs something before it costs
// the success. Failures that end at the same limit stay equal.
//
// Differs from the length penalties of language tasks in: it counts
// turns, which cost the environment time, not tokens.
func LessTurns(score float64, turns []data.Turn, penalty float64) float64 {
	return score - penalty*float64(len(turns))
}

// LessInvalid takes penalty off score for every turn without a valid action.
//
// Source: OpenManus-RL (September 2025), invalid_action_penalty_coef, applied
// before KL and advantages (spec 5.9). Differs in: it is taken off the
// episode, whose turns share one row, and not off each turn's own row.
func LessInvalid(score float64, turns []data.Turn, penalty float64) float64 {
	return score - penalty*float64(len(turns)-ValidActions(turns))
}

// ValidActions counts the turns whose reply held an action that went to the
// environment.
func ValidActions(turns []data.Turn) int {
	n := 0
	for _, t := range turns {
		if t.Parsed && !t.Refused {
			n++
		}
	}
	return n
}
