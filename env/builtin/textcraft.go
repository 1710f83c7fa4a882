package builtin

import (
	"errors"
	"net/http"
)

// The TextCraft server of AgentGym (protocol 5.1).

// textcraftPlayer is one instance, with the contents of the replies to /observation and /detail.
type textcraftPlayer struct {
	game   crafter
	text   string
	reward number
	done   bool
}

// errNoMethod is the error of two endpoints that AgentGym declares without an
// implementation.
var errNoMethod = errors.New("no such method")

// textcraftReply is the reply of create and reset.
type textcraftReply struct {
	ID          int64  `json:"id"`
	Observation string `json:"observation"`
	Done        bool   `json:"done"`
	Reward      number `json:"reward"`
}

func newTextcraftServer(book *Book, limit int) routes {
	players := newInstances(limit, func(*textcraftPlayer) bool { return false })
	broken := func(r *request) (any, error) {
		if _, err := r.queryID(); err != nil {
			return nil, err
		}
		return nil, errNoMethod
	}
	return routes{
		"/":            {http.MethodGet: constant("This is environment TextCraft.")},
		"/create":      {http.MethodPost: func(r *request) (any, error) { return createTextcraft(r, players, book) }},
		"/reset":       {http.MethodPost: players.reset("data_idx", true, (*textcraftPlayer).reset)},
		"/step":        {http.MethodPost: players.step((*textcraftPlayer).step)},
		"/close":       {http.MethodPost: func(r *request) (any, error) { return closeTextcraft(r, players) }},
		"/observation": {http.MethodGet: players.query(func(p *textcraftPlayer) (any, error) { return p.text, nil })},
		"/detail":      {http.MethodGet: players.query((*textcraftPlayer).detail)},
		"/goal":        {http.MethodGet: broken},
		"/commands":    {http.MethodGet: broken},
	}
}

// createTextcraft starts the task whose number is the new id. Like AgentGym, it
// ignores the body's commands and goal.
func createTextcraft(r *request, players *instances[textcraftPlayer], book *Book) (any, error) {
	if err := r.body(); err != nil {
		return nil, err
	}
	r.str("commands", true)
	r.str("goal", true)
	if err := r.err(); err != nil {
		return nil, err
	}
	var text string
	id, err := players.add(func(id int64) textcraftPlayer {
		p := newTextcraftPlayer(book, id)
		text = p.text
		return p
	})
	return textcraftReply{ID: id, Observation: text, Reward: zero}, err
}

// closeTextcraft removes an instance and returns whether it existed.
func closeTextcraft(r *request, players *instances[textcraftPlayer]) (any, error) {
	if err := r.body(); err != nil {
		return nil, err
	}
	id := r.integer("id", false)
	if err := r.err(); err != nil {
		return nil, err
	}
	return players.remove(*id), nil
}

// newTextcraftPlayer starts task index with an empty inventory.
func newTextcraftPlayer(book *Book, index int64) textcraftPlayer {
	index %= int64(book.Len())
	return textcraftPlayer{
		game: crafter{book: book, goal: book.goal(int(index)), held: map[string]int64{}},
		text: book.taskText(int(index)), reward: zero,
	}
}

func (p *textcraftPlayer) reset(id int64, index *int64) (any, error) {
	if index == nil {
		return nil, gameError("unsupported operand type(s) for %: 'NoneType' and 'int'")
	}
	*p = newTextcraftPlayer(p.game.book, *index)
	return textcraftReply{ID: id, Observation: p.text, Reward: zero}, nil
}

func (p *textcraftPlayer) step(_ int64, action string) (any, error) {
	p.reward = zero
	if p.text, p.done = p.game.act(action); p.done {
		p.reward = one
	}
	return stepReply{p.text, p.reward, p.done}, nil
}

func (p *textcraftPlayer) detail() (any, error) {
	return struct {
		Observation string `json:"observation"`
		Done        bool   `json:"done"`
		Reward      number `json:"reward"`
		Deleted     bool   `json:"deleted"`
	}{p.text, p.done, p.reward, false}, nil
}
