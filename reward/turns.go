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
