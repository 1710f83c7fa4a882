package builtin

import (
	"errors"
	"net/http"
	"sync"
)

// The TextCraft server of AgentGym (protocol 5.1).

// textcraftPlayer is one instance, with the reply of /observation and /detail.
type textcraftPlayer struct {
	mu     sync.Mutex // guards all below
	game   crafter
	text   string
	reward number
	done   bool
}

type textcraftServer struct {
	book    *Book
	players *instances[textcraftPlayer]
}

// errNoMethod is the error of two endpoints that the original declares but does not
// implement.
var errNoMethod = errors.New("no such method")

func newTextcraftServer(book *Book, limit int) routes {
	s := &textcraftServer{book, newInstances[textcraftPlayer](limit)}
	broken := func(r *request) (any, error) {
		if _, err := r.queryID(); err != nil {
			return nil, err
		}
		return nil, errNoMethod
	}
	return routes{
		"/":            {http.MethodGet: func(*request) (any, error) { return "This is environment TextCraft.", nil }},
		"/create":      {http.MethodPost: s.create},
		"/reset":       {http.MethodPost: s.reset},
		"/step":        {http.MethodPost: s.step},
		"/close":       {http.MethodPost: s.close},
		"/observation": {http.MethodGet: s.observation},
		"/detail":      {http.MethodGet: s.detail},
		"/goal":        {http.MethodGet: broken},
		"/commands":    {http.MethodGet: broken},
	}
}

// textcraftReply is the reply of create and reset.
type textcraftReply struct {
	ID          int64  `json:"id"`
	Observation string `json:"observation"`
	Done        bool   `json:"done"`
	Reward      number `json:"reward"`
}

// start begins task index with an empty inventory. The caller holds mu or owns the
// player.
func (p *textcraftPlayer) start(book *Book, index int64) {
	index %= int64(book.Len())
	p.game = crafter{book: book, goal: book.goal(int(index)), held: map[string]int64{}}
	p.text, p.reward, p.done = book.taskText(int(index)), zero, false
}

// create starts task number id. Like the original, it ignores the body's commands
// and goal.
func (s *textcraftServer) create(r *request) (any, error) {
	if err := r.body(); err != nil {
		return nil, err
	}
	r.str("commands", true)
	r.str("goal", true)
	if err := r.err(); err != nil {
		return nil, err
	}
	var text string
	id, err := s.players.add(func(id int64) *textcraftPlayer {
		p := &textcraftPlayer{}
		p.start(s.book, id)
		text = p.text
		return p
	})
	return textcraftReply{ID: id, Observation: text, Reward: zero}, err
}

func (s *textcraftServer) reset(r *request) (any, error) {
	if err := r.body(); err != nil {
		return nil, err
	}
	id, index := r.integer("id", false, 0), r.integer("data_idx", true, 0)
	if err := r.err(); err != nil {
		return nil, err
	}
	p, err := s.players.get(*id)
	if err != nil {
		return nil, err
	}
	if index == nil {
		return nil, gameError("unsupported operand type(s) for %: 'NoneType' and 'int'")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.start(s.book, *index)
	return textcraftReply{ID: *id, Observation: p.text, Reward: zero}, nil
}

func (s *textcraftServer) step(r *request) (any, error) {
	if err := r.body(); err != nil {
		return nil, err
	}
	id, action := r.integer("id", false, 0), r.str("action", false)
	if err := r.err(); err != nil {
		return nil, err
	}
	p, err := s.players.get(*id)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reward = zero
	if p.text, p.done = p.game.act(action); p.done {
		p.reward = one
	}
	return stepReply{p.text, p.reward, p.done}, nil
}

func (s *textcraftServer) close(r *request) (any, error) {
	if err := r.body(); err != nil {
		return nil, err
	}
	id := r.integer("id", false, 0)
	if err := r.err(); err != nil {
		return nil, err
	}
	return s.players.remove(*id), nil
}

func (s *textcraftServer) observation(r *request) (any, error) {
	p, err := s.query(r)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text, nil
}

func (s *textcraftServer) detail(r *request) (any, error) {
	p, err := s.query(r)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return struct {
		Observation string `json:"observation"`
		Done        bool   `json:"done"`
		Reward      number `json:"reward"`
		Deleted     bool   `json:"deleted"`
	}{p.text, p.done, p.reward, false}, nil
}

func (s *textcraftServer) query(r *request) (*textcraftPlayer, error) {
	id, err := r.queryID()
	if err != nil {
		return nil, err
	}
	return s.players.get(id)
}
