package builtin

import "math/rand/v2"

// bumpChance is how often a drawn move into a wall is made all the same.
const bumpChance = 1.0 / 6

// MazeWalk gives n moves of somebody who knows nothing of the goal: from the
// start of game, each drawn from all four, of which one into a wall is mostly
// drawn again. Some bumps stay, because an agent that learns makes them too,
// and a reader who never saw one would not know how the text goes on. The walk
// never enters the goal, so that nothing is learned from it about winning. It
// is nil for a game that is not 0 to MazeGames-1.
func MazeWalk(game, n int, rng *rand.Rand) []string {
	if game < 0 || game >= MazeGames {
		return nil
	}
	var actions []string
	for at := mazeStarts[game]; len(actions) < n; {
		m := mazeMoves[rng.IntN(len(mazeMoves))]
		to := at.plus(m.by)
		if to == mazeGoal || !to.free() && rng.Float64() >= bumpChance {
			continue
		}
		actions = append(actions, m.action)
		if to.free() {
			at = to
		}
	}
	return actions
}
