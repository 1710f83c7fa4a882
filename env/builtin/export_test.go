package builtin

import "slices"

// MazePath returns the observations of game while its expert plays it: the observation before each action, and the
// reply to the last action. It returns nil for unknown games.
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

// MazeStart returns the row and the column of the start of game.
func MazeStart(game int) (row, col int) { return mazeStarts[game].row, mazeStarts[game].col }

// Words returns the words of the vocabulary in order.
func (v *Vocabulary) Words() []string { return slices.Clone(v.words) }
