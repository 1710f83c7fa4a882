package builtin

// MazeExpert returns a shortest sequence of actions that wins game. Of equally good
// moves it takes the first in the order left, right, up, down. It returns nil if game is not
// from 0 to MazeGames-1.
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

// mazeDistances returns the number of moves to the goal from each free cell, found
// by breadth-first search.
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
