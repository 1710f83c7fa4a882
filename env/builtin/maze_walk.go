package builtin

import "math/rand/v2"

const (
	bumpChance   = 1.0 / 6 // probability that a drawn move into a wall is kept
	returnChance = 1.0 / 4 // probability that a move straight back is kept while another way is open
)

// MazeWalk returns n random moves from the start of game, for pretraining texts. Each
// move is drawn uniformly, and usually redrawn if it leads into a wall or straight
// back. Some moves into walls remain, so that a model learns the resulting
// observations. Most moves straight back are redrawn, because a model of undirected
// walks moves to and fro in corridors, and training on solved episodes does not
// correct that. A walk never enters the goal, so it does not reveal how to win.
// MazeWalk returns nil if game is not from 0 to MazeGames-1.
func MazeWalk(game, n int, rng *rand.Rand) []string {
	if game < 0 || game >= MazeGames {
		return nil
	}
	var actions []string
	at := mazeStarts[game]
	from := at // the previous cell; at the start, the cell itself
	for len(actions) < n {
		m := mazeMoves[rng.IntN(len(mazeMoves))]
		to := at.plus(m.by)
		switch {
		case to == mazeGoal,
			!to.free() && rng.Float64() >= bumpChance,
			to == from && waysOn(at, from) > 0 && rng.Float64() >= returnChance:
			continue
		}
		actions = append(actions, m.action)
		if to.free() {
			from, at = at, to
		}
	}
	return actions
}

// waysOn returns the number of free neighbours of a cell (at), without the goal and the previous cell (from).
func waysOn(at, from cell) int {
	n := 0
	for _, m := range mazeMoves {
		if to := at.plus(m.by); to.free() && to != mazeGoal && to != from {
			n++
		}
	}
	return n
}
