package builtin

import "math/rand/v2"

// MazeWalk gives n moves of somebody who sees walls and knows nothing of the
// goal: from the start of game, each drawn from those that no wall forbids. It
// never enters the goal, so that nothing is learned from it about winning. It
// is nil for a game that is not 0 to MazeGames-1.
func MazeWalk(game, n int, rng *rand.Rand) []string {
	if game < 0 || game >= MazeGames {
		return nil
	}
	var actions []string
	for at := mazeStarts[game]; len(actions) < n; {
		m := mazeMoves[rng.IntN(len(mazeMoves))]
		if to := at.plus(m.by); to.free() && to != mazeGoal {
			actions = append(actions, m.action)
			at = to
		}
	}
	return actions
}
