package builtin

import (
	"fmt"
	"strings"
)

// cell is a position in the maze.
type cell struct{ row, col int }

// mazeRows is the map: two T shapes joined by a corridor to the goal. A dot is a
// free cell, any other character a wall.
var mazeRows = [...]string{
	"#############",
	"#.....#.....#",
	"###.#####.###",
	"###.#####.###",
	"###.#####.###",
	"###.......###",
	"######.######",
	"######.######",
	"######.######",
	"#############",
}

var mazeGoal = cell{8, 6}

// mazeStarts is the start of each game. The last one is the goal, which reset
// rejects.
var mazeStarts = [...]cell{
	{1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 5},
	{1, 7}, {1, 8}, {1, 9}, {1, 10}, {1, 11},
	{2, 3}, {3, 3}, {4, 3},
	{5, 3}, {5, 4}, {5, 5}, {5, 6},
	{6, 6}, {7, 6},
	{5, 7}, {5, 8}, {5, 9},
	{4, 9}, {3, 9}, {2, 9},
	{8, 6},
}

// MazeGames is the number of games: 0 to MazeGames-1.
const MazeGames = len(mazeStarts) - 1

// mazeMoves lists the moves in the order of /available_actions.
var mazeMoves = [...]struct {
	action string
	by     cell
}{
	{"move left", cell{0, -1}},
	{"move right", cell{0, 1}},
	{"move up", cell{-1, 0}},
	{"move down", cell{1, 0}},
}

func (c cell) plus(d cell) cell { return cell{c.row + d.row, c.col + d.col} }

// free reports whether c is inside the map and not a wall.
func (c cell) free() bool {
	return c.row >= 0 && c.row < len(mazeRows) && c.col >= 0 && c.col < len(mazeRows[0]) && mazeRows[c.row][c.col] == '.'
}

// mazeMove returns the cell after an action at c. It returns c if the action is
// unknown or leads into a wall.
func mazeMove(c cell, action string) cell {
	for _, m := range mazeMoves {
		if m.action == action {
			if to := c.plus(m.by); to.free() {
				return to
			}
		}
	}
	return c
}

// mazeText returns the observation of a player at c.
func mazeText(c cell) string {
	return fmt.Sprintf("The goal is at position %d, %d. Your current position is at position %d, %d. %s",
		mazeGoal.row, mazeGoal.col, c.row, c.col, wallText(c))
}

// wallText describes the walls around c, in the order right, left, above, below.
func wallText(c cell) string {
	var walls []string
	for _, side := range [...]struct {
		words string
		by    cell
	}{
		{"to your right", cell{0, 1}},
		{"to your left", cell{0, -1}},
		{"above you", cell{-1, 0}},
		{"below you", cell{1, 0}},
	} {
		if !c.plus(side.by).free() {
			walls = append(walls, side.words)
		}
	}
	switch len(walls) {
	case 0:
		return "There are no walls near you."
	case 1:
		return "There is a wall " + walls[0] + "."
	}
	return "There are walls " + strings.Join(walls, ", ") + "."
}
