package builtin

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// The maze server of AgentGym's lmrlgym (protocol 5.5), mounted at /maze.

// lmrlgymText is the reply of the root path of lmrlgym.
const lmrlgymText = "This is environment LMRL-Gym."

// errNoObservation is lmrlgym's error for a game that was never reset: the text of a
// Python KeyError.
const errNoObservation = gameError("'observation'")

const (
	mazeSuccess = "Success\n"
	mazeFailure = "Failure\n"
	// mazeSteps limits the steps that do not reach the goal. A further step fails,
	// even if it would reach the goal.
	mazeSteps = 50
)

// number is a reward as AgentGym writes it: the integer 0 for a step before the end, a
// float at the goal and at the step limit.
type number = json.RawMessage

var (
	zero      = number("0")
	zeroFloat = number("0.0")
	one       = number("1")
	oneFloat  = number("1.0")
	minusOne  = number("-1.0")
)

// mazeGame is one instance of the maze.
type mazeGame struct {
	// started is false before the first successful reset. Until then
	// AgentGym's server answers with the text of a Python KeyError.
	started bool
	at      cell
	steps   int
	done    bool
	text    string
	total   float64
}

func newMazeServer(limit int) routes {
	games := newInstances(limit, func(g *mazeGame) bool { return g.done })
	var actions []string
	for _, m := range mazeMoves {
		actions = append(actions, m.action)
	}
	return routes{
		"/":                       {http.MethodGet: constant(lmrlgymText)},
		"/maze/create":            {http.MethodPost: games.create(func(int64) mazeGame { return mazeGame{} })},
		"/maze/reset":             {http.MethodPost: games.reset("game", false, (*mazeGame).reset)},
		"/maze/step":              {http.MethodPost: games.step((*mazeGame).step)},
		"/maze/available_actions": {http.MethodGet: constant(actions)},
		"/maze/observation":       {http.MethodGet: games.query((*mazeGame).observation)},
		"/maze/detail":            {http.MethodGet: games.query((*mazeGame).detail)},
	}
}

func (g *mazeGame) reset(_ int64, n *int64) (any, error) {
	index := *n
	if index >= int64(len(mazeStarts)) {
		return nil, gameError(fmt.Sprintf("The game %d is not valid.", index))
	}
	if index < 0 { // a negative index counts from the end, as in Python
		if index += int64(len(mazeStarts)); index < 0 {
			return nil, gameError("list index out of range")
		}
	}
	if mazeStarts[index] == mazeGoal {
		return nil, gameError("") // the text of a failed Python assertion
	}
	at := mazeStarts[index]
	*g = mazeGame{started: true, at: at, text: mazeText(at)}
	return map[string]string{"observation": g.text}, nil
}

type stepReply struct {
	Observation string `json:"observation"`
	Reward      number `json:"reward"`
	Done        bool   `json:"done"`
}

func (g *mazeGame) step(id int64, action string) (any, error) {
	if !g.started {
		return nil, gameError(fmt.Sprint(id))
	}
	reply := stepReply{Reward: zero}
	if g.steps >= mazeSteps {
		reply = stepReply{mazeFailure, minusOne, true}
		g.total--
	} else if g.at = mazeMove(g.at, action); g.at == mazeGoal {
		reply = stepReply{mazeSuccess, oneFloat, true}
		g.total++
	} else {
		g.steps++
		reply.Observation = mazeText(g.at)
	}
	g.text, g.done = reply.Observation, reply.Done
	return reply, nil
}

func (g *mazeGame) observation() (any, error) {
	if !g.started {
		return nil, errNoObservation
	}
	return g.text, nil
}

func (g *mazeGame) detail() (any, error) {
	if !g.started {
		return nil, gameError("'goal_position'")
	}
	return struct {
		MazeName    string  `json:"maze_name"`
		Observation string  `json:"observation"`
		Done        bool    `json:"done"`
		Reward      float64 `json:"reward"`
		Deleted     bool    `json:"deleted"`
	}{"double_t_maze", g.text, g.done, g.total, false}, nil
}
