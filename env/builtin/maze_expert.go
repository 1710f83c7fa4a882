package builtin

// MazeExpert gives a shortest sequence of actions that wins game. Among moves
// that are equally good it takes the first of left, right, up, down. It is nil
// for a game that is not 0 to MazeGames-1.
func MazeExpert(game int) []string {
	if game < 0 || game >= MazeGames {
		return nil
	}
	left := mazeDistances()
	var actions []string
	for at := mazeStarts[game]; at != mazeGoal; {
		for _, m := range mazeMoves {
			to := at.plus(m.by)
			if d, free := left[to]; free && d < left[at] {
				actions = append(actions, m.action)
				at = to
				break
			}
		}
	}
	return actions
}

// MazePath gives the observations of game under its expert's actions: one
// before each action, and the reply to the last. It is nil where MazeExpert is.
func MazePath(game int) []string {
	actions := MazeExpert(game)
	if actions == nil {
		return nil
	}
	var observations []string
	at := mazeStarts[game]
	for _, a := range actions {
		observations = append(observations, mazeText(at))
		at = mazeMove(at, a)
	}
	return append(observations, mazeSuccess)
}

// MazeStart gives the row and column game starts at; ok is false where
// MazeExpert is nil.
func MazeStart(game int) (row, col int, ok bool) {
	if game < 0 || game >= MazeGames {
		return 0, 0, false
	}
	return mazeStarts[game].row, mazeStarts[game].col, true
}

// mazeDistances gives the number of moves to the goal from every free cell,
// by breadth-first search from the goal.
func mazeDistances() map[cell]int {
	left := map[cell]int{mazeGoal: 0}
	for queue := []cell{mazeGoal}; len(queue) > 0; queue = queue[1:] {
		for _, m := range mazeMoves {
			to := queue[0].plus(m.by)
			if _, seen := left[to]; !seen && to.free() {
				left[to] = left[queue[0]] + 1
				queue = append(queue, to)
			}
		}
	}
	return left
}
