package env

import (
	"fmt"
	"strings"
)

// The maze of AgentGym's lmrlgym server (protocol 5.5). Its endpoints are under
// /maze, /create takes no body, the key of the task is "game", and there is no
// /close. Upstream's client puts a long fixed introduction before the first
// observation; here the instruction serves that purpose.
//
// /detail has no information about the last step of a game, so Recall cannot return
// that step.

// mazeGames is the number of playable start cells. Game 25 is the goal itself.
const mazeGames = 25

// lmrlgymGreeting is the greeting of the server of maze and wordle.
const lmrlgymGreeting = "This is environment LMRL-Gym."

func init() {
	register("maze", server{
		reset:  `{"game":%d,"id":%s}`,
		parse:  split,
		detail: true,
	}, Spec{
		Doc:           "walk a fixed maze to its goal by four moves (AgentGym lmrlgym server)",
		PathSuffix:    "/maze",
		Instruction:   mazeInstruction,
		RecordedStart: mazeRecordedStart,
		SuccessReward: 0.99,
		MaxTurns:      15,
		Deterministic: true,
		Greeting:      lmrlgymGreeting,
		IndexValid: func(i int) error {
			switch {
			case i == mazeGames:
				return fmt.Errorf("start cell 25 is the goal itself, which every server refuses with an empty error: drop such rows from recorded data")
			case i > mazeGames:
				return fmt.Errorf("the start cells are 0 to %d", mazeGames-1)
			}
			return nil
		},
	})
}

func mazeInstruction(format string) string {
	return "You are in a maze of square cells and want to reach the goal in as few moves as you can. " +
		"A position is written as row, column: moving down adds one to the row, moving right adds one to the column. " +
		"Each observation tells you where the goal is, where you are, and which of the four neighbours of your cell are walls; " +
		"moving into a wall leaves you where you are.\n" +
		"There are four actions: move up, move down, move left, move right.\n" +
		replyShape(format, "move left")
}

// mazeRecordedStart returns the first observation of a recorded episode: the part
// of the text that begins with the last statement of the goal. Earlier statements belong to the worked
// example in upstream's introduction.
func mazeRecordedStart(message string) string {
	if i := strings.LastIndex(message, "The goal is at position"); i >= 0 {
		return message[i:]
	}
	return message
}
