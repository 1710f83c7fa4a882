package builtin

import (
	"fmt"
	"net/http"
	"sync"
)

// The wordle server of AgentGym's lmrlgym (protocol 5.6), mounted at /wordle.

const wordleStart = "Let's start Wordle!"

// wordlePlayer is one instance, with the reply of /observation and /detail.
type wordlePlayer struct {
	mu    sync.Mutex // guards all below
	game  *guessing
	reset bool // false before the first reset or step: no observation yet
	seed  int64
	text  string
	total int
	done  bool
}

type wordleServer struct {
	vocabulary *Vocabulary
	players    *instances[wordlePlayer]
}

func newWordleServer(v *Vocabulary, limit int) routes {
	s := &wordleServer{v, newInstances[wordlePlayer](limit)}
	return routes{
		"/":                      {http.MethodGet: func(*request) (any, error) { return "This is environment LMRL-Gym.", nil }},
		"/wordle/create":         {http.MethodPost: s.create},
		"/wordle/reset":          {http.MethodPost: s.restart},
		"/wordle/step":           {http.MethodPost: s.step},
		"/wordle/filtered_vocab": {http.MethodGet: s.filtered},
		"/wordle/observation":    {http.MethodGet: s.observation},
		"/wordle/detail":         {http.MethodGet: s.detail},
	}
}

// create adds an instance that is playable without a reset, like the original's. Its
// seed is its id.
func (s *wordleServer) create(*request) (any, error) {
	id, err := s.players.add(func(id int64) *wordlePlayer {
		return &wordlePlayer{game: newGuessing(s.vocabulary, id)}
	})
	return idReply{id}, err
}

// player returns the instance of id, locked. If playing is true, a finished game is
// an error; only reset accepts one.
func (s *wordleServer) player(id int64, playing bool) (*wordlePlayer, error) {
	p, err := s.players.get(id)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	if playing && p.done {
		p.mu.Unlock()
		return nil, gameError(fmt.Sprintf("The task with environment %d has finished.", id))
	}
	return p, nil
}

func (s *wordleServer) restart(r *request) (any, error) {
	if err := r.body(); err != nil {
		return nil, err
	}
	id, seed := r.integer("id", false, 0), r.integer("seed", false, 0)
	if err := r.err(); err != nil {
		return nil, err
	}
	p, err := s.player(*id, false)
	if err != nil {
		return nil, err
	}
	defer p.mu.Unlock()
	p.game = newGuessing(s.vocabulary, *seed)
	p.reset, p.seed, p.text, p.total, p.done = true, *seed, wordleStart, 0, false
	return struct {
		ID          int64  `json:"id"`
		Observation string `json:"observation"`
	}{*id, wordleStart}, nil
}

func (s *wordleServer) step(r *request) (any, error) {
	if err := r.body(); err != nil {
		return nil, err
	}
	id, action := r.integer("id", false, 0), r.str("action", false)
	if err := r.err(); err != nil {
		return nil, err
	}
	p, err := s.player(*id, true)
	if err != nil {
		return nil, err
	}
	defer p.mu.Unlock()
	text, solved, done := p.game.act(action)
	reply := stepReply{text, zero, done}
	switch {
	case solved:
		reply.Reward = one
		p.total++
	case text == wordleInvalid:
		reply.Reward = zeroFloat
	}
	p.text, p.done, p.reset = text, done, true
	return reply, nil
}

// filtered returns the words that are consistent with the feedback so far.
func (s *wordleServer) filtered(r *request) (any, error) {
	p, err := s.query(r)
	if err != nil {
		return nil, err
	}
	defer p.mu.Unlock()
	return p.game.left, nil
}

func (s *wordleServer) observation(r *request) (any, error) {
	p, err := s.query(r)
	if err != nil {
		return nil, err
	}
	defer p.mu.Unlock()
	if !p.reset {
		return nil, gameError("'observation'")
	}
	return p.text, nil
}

// detail returns the state of an instance. As in the original, seed and observation
// are absent before the first reset or step.
func (s *wordleServer) detail(r *request) (any, error) {
	p, err := s.query(r)
	if err != nil {
		return nil, err
	}
	defer p.mu.Unlock()
	d := struct {
		Done        bool    `json:"done"`
		Reward      int     `json:"reward"`
		Deleted     bool    `json:"deleted"`
		Seed        *int64  `json:"seed,omitempty"`
		Observation *string `json:"observation,omitempty"`
	}{Done: p.done, Reward: p.total}
	if p.reset {
		d.Seed, d.Observation = &p.seed, &p.text
	}
	return d, nil
}

// query returns the instance of the query's id, locked.
func (s *wordleServer) query(r *request) (*wordlePlayer, error) {
	id, err := r.queryID()
	if err != nil {
		return nil, err
	}
	return s.player(id, true)
}
