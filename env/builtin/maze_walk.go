package builtin

import "math/rand/v2"

// How often a drawn move is made although it goes into a wall, or back where
// the walk came from with another way open.
const (
	bumpChance   = 1.0 / 6
	returnChance = 1.0 / 4
)

// MazeWalk gives n moves of somebody who knows nothing of the goal: from the
// start of game, each drawn from all four and then mostly drawn again if it
// goes into a wall or straight back. Some bumps stay, because an agent that
// learns makes them too, and a reader who never saw one would not know how the
// text goes on. Turning back is rare because a reader of walks without a
// direction walks to and fro in a corridor, and episodes that solve their task
// do not teach it otherwise. The walk never enters the goal, so that nothing
// is learned from it about winning. It is nil for a game that is not 0 to
// MazeGames-1.
func MazeWalk(game, n int, rng *rand.Rand) []string {
	if game < 0 || game >= MazeGames {
		return nil
	}
	var actions []string
	at := mazeStarts[game]
	from := at // the cell before, or at where there is none
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

// waysOn counts the free cells beside at, other than the goal and from.
func waysOn(at, from cell) int {
	n := 0
	for _, m := range mazeMoves {
		if to := at.plus(m.by); to.free() && to != mazeGoal && to != from {
			n++
		}
	}
	return n
}
