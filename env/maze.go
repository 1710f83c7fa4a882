package env

import (
	"context"
	"fmt"
	"strings"

	"github.com/openmanus/openmanus/env/action"
)

// The maze of AgentGym's lmrlgym server (protocol 5.5). Its endpoints hang
// under /maze, /create takes no body, the task is called "game", and there is
// no /close. Upstream's client puts a long fixed introduction before the
// first observation; here that is the instruction's job.

var mazeServer = server{suffix: "/maze"}

// mazeGames is the number of starts that can be played: game 25 is the goal
// itself.
const mazeGames = 25

// lmrlgymGreeting is what the server of maze and wordle says.
const lmrlgymGreeting = "This is environment LMRL-Gym."

func init() {
	Register("maze", Spec{
		Doc:           "walk a fixed maze to its goal by four moves (AgentGym lmrlgym server)",
		PathSuffix:    mazeServer.suffix,
		New:           newMaze,
		Instruction:   mazeInstruction,
		RecordedStart: mazeRecordedStart,
		SuccessReward: 0.99,
		MaxTurns:      15,
		Deterministic: true,
		Greeting:      lmrlgymGreeting,
		IndexValid: func(i int) error {
			switch {
			case i == mazeGames:
				return fmt.Errorf("start cell 25 is the goal itself, and every server refuses it with an empty error; recorded data has such rows, drop them")
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

// mazeRecordedStart returns the last line of the introduction that upstream's
// client puts before the first observation; its worked example holds others.
func mazeRecordedStart(message string) string {
	if i := strings.LastIndex(message, "The goal is at position"); i >= 0 {
		return message[i:]
	}
	return message
}

type maze struct {
	instance
	shown
}

type mazeReset struct {
	Game int   `json:"game"`
	ID   int64 `json:"id"`
}

func newMaze(ctx context.Context, o Options) (Client, error) {
	if _, err := o.parser("maze"); err != nil { // both generations parse alike
		return nil, err
	}
	c, err := newCaller(o, mazeServer)
	if err != nil {
		return nil, err
	}
	m := &maze{instance: instance{caller: c}}
	if err := m.create(ctx, nil); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *maze) Reset(ctx context.Context, index int) (Obs, error) {
	if err := checkIndex("maze", index); err != nil {
		return Obs{}, err
	}
	return m.begun(m.reset(ctx, mazeReset{Game: index, ID: m.id}))
}

func (m *maze) Step(ctx context.Context, text string) (StepResult, error) {
	return m.went(m.act(ctx, action.ParseSplit(text)))
}

// Recall knows no last step: the server has nothing to say of a game that is
// over. Its reward adds up, but before that there is none.
func (m *maze) Recall(ctx context.Context) (StepResult, bool, error) {
	return m.recall(ctx, &m.instance)
}

// Close only ends the client: the server has no way to give an instance back.
func (m *maze) Close(context.Context) error { return m.forget() }
