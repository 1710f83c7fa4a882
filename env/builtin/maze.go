package builtin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
)

// The maze server of AgentGym's lmrlgym (protocol 5.5), mounted at /maze.

const (
	mazeSuccess = "Success\n"
	mazeFailure = "Failure\n"
	// mazeSteps is the limit of steps that do not reach the goal. The step after
	// it fails, even if it would reach the goal.
	mazeSteps = 50
)

// number is a reward as the original spells it: an integer 0 for a step on the way,
// a float at the goal and at the limit.
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
	mu sync.Mutex // guards all below
	// started is false before the first successful reset. Until then the
	// originals answer with the text of a Python KeyError.
	started bool
	at      cell
	steps   int
	done    bool
	text    string
	total   float64
}

type mazeServer struct{ games *instances[mazeGame] }

func newMazeServer(limit int) routes {
	s := &mazeServer{newInstances[mazeGame](limit)}
	return routes{
		"/":            {http.MethodGet: func(*request) (any, error) { return "This is environment LMRL-Gym.", nil }},
		"/maze/create": {http.MethodPost: s.create},
		"/maze/reset":  {http.MethodPost: s.reset},
		"/maze/step":   {http.MethodPost: s.step},
		"/maze/available_actions": {http.MethodGet: func(*request) (any, error) {
			var names []string
			for _, m := range mazeMoves {
				names = append(names, m.action)
			}
			return names, nil
		}},
		"/maze/observation": {http.MethodGet: s.observation},
		"/maze/detail":      {http.MethodGet: s.detail},
	}
}

type idReply struct {
	ID int64 `json:"id"`
}

func (s *mazeServer) create(*request) (any, error) {
	id, err := s.games.add(func(int64) *mazeGame { return &mazeGame{} })
	return idReply{id}, err
}

// game returns the instance of id, locked. If playing is true, a finished game is an
// error; only reset accepts one.
func (s *mazeServer) game(id int64, playing bool) (*mazeGame, error) {
	g, err := s.games.get(id)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	if playing && g.done {
		g.mu.Unlock()
		return nil, gameError(fmt.Sprintf("The task with environment %d has finished.", id))
	}
	return g, nil
}

func (s *mazeServer) reset(r *request) (any, error) {
	if err := r.body(); err != nil {
		return nil, err
	}
	id, n := r.integer("id", false, 0), r.integer("game", false, 0)
	if err := r.err(); err != nil {
		return nil, err
	}
	g, err := s.game(*id, false)
	if err != nil {
		return nil, err
	}
	defer g.mu.Unlock()
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
	g.started, g.at, g.steps, g.done, g.total = true, mazeStarts[index], 0, false, 0
	g.text = mazeText(g.at)
	return map[string]string{"observation": g.text}, nil
}

type stepReply struct {
	Observation string `json:"observation"`
	Reward      number `json:"reward"`
	Done        bool   `json:"done"`
}

func (s *mazeServer) step(r *request) (any, error) {
	if err := r.body(); err != nil {
		return nil, err
	}
	id, action := r.integer("id", false, 0), r.str("action", false)
	if err := r.err(); err != nil {
		return nil, err
	}
	g, err := s.game(*id, true)
	if err != nil {
		return nil, err
	}
	defer g.mu.Unlock()
	if !g.started {
		return nil, gameError(fmt.Sprint(*id))
	}
	return g.step(action), nil
}

func (g *mazeGame) step(action string) stepReply {
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
	return reply
}

// query returns the game of the query's id, locked. key is the key that the original
// reports as missing in a game that was never reset.
func (s *mazeServer) query(r *request, key string) (*mazeGame, error) {
	id, err := r.queryID()
	if err != nil {
		return nil, err
	}
	g, err := s.game(id, true)
	if err != nil {
		return nil, err
	}
	if !g.started {
		g.mu.Unlock()
		return nil, gameError("'" + key + "'")
	}
	return g, nil
}

func (s *mazeServer) observation(r *request) (any, error) {
	g, err := s.query(r, "observation")
	if err != nil {
		return nil, err
	}
	defer g.mu.Unlock()
	return g.text, nil
}

func (s *mazeServer) detail(r *request) (any, error) {
	g, err := s.query(r, "goal_position")
	if err != nil {
		return nil, err
	}
	defer g.mu.Unlock()
	return struct {
		MazeName    string  `json:"maze_name"`
		Observation string  `json:"observation"`
		Done        bool    `json:"done"`
		Reward      float64 `json:"reward"`
		Deleted     bool    `json:"deleted"`
	}{"double_t_maze", g.text, g.done, g.total, false}, nil
}
