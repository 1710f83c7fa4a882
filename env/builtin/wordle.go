package builtin

import "net/http"

// The wordle server of AgentGym's lmrlgym (protocol 5.6), mounted at /wordle.

const wordleStart = "Let's start Wordle!"

// wordlePlayer is one instance, with the contents of the replies to /observation and /detail.
type wordlePlayer struct {
	game  *guessing
	reset bool // whether text is set: true after the first reset or step
	seed  int64
	text  string
	total int
	done  bool
}

// newWordleServer serves wordle. As in AgentGym, an instance is playable without a
// reset; its seed is then its id.
func newWordleServer(v *Vocabulary, limit int) routes {
	players := newInstances(limit, func(p *wordlePlayer) bool { return p.done })
	return routes{
		"/": {http.MethodGet: constant(lmrlgymText)},
		"/wordle/create": {http.MethodPost: players.create(func(id int64) wordlePlayer {
			return wordlePlayer{game: newGuessing(v, id)}
		})},
		"/wordle/reset":          {http.MethodPost: players.reset("seed", false, (*wordlePlayer).restart)},
		"/wordle/step":           {http.MethodPost: players.step((*wordlePlayer).step)},
		"/wordle/filtered_vocab": {http.MethodGet: players.query((*wordlePlayer).filtered)},
		"/wordle/observation":    {http.MethodGet: players.query((*wordlePlayer).observation)},
		"/wordle/detail":         {http.MethodGet: players.query((*wordlePlayer).detail)},
	}
}

func (p *wordlePlayer) restart(id int64, seed *int64) (any, error) {
	*p = wordlePlayer{game: newGuessing(p.game.vocabulary, *seed), reset: true, seed: *seed, text: wordleStart}
	return struct {
		ID          int64  `json:"id"`
		Observation string `json:"observation"`
	}{id, wordleStart}, nil
}

func (p *wordlePlayer) step(_ int64, action string) (any, error) {
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
func (p *wordlePlayer) filtered() (any, error) { return p.game.left, nil }

func (p *wordlePlayer) observation() (any, error) {
	if !p.reset {
		return nil, errNoObservation
	}
	return p.text, nil
}

// detail returns the state of an instance. As in AgentGym, seed and observation
// are absent before the first reset or step.
func (p *wordlePlayer) detail() (any, error) {
	d := struct {
		Done        bool    `json:"done"`
		Reward      int     `json:"reward"`
		Deleted     bool    `json:"deleted"`
		Seed        *int64  `json:"seed,omitempty"`
		Observation *string `json:"observation,omitempty"`
	}{Done: p.done, Reward: p.total}
	if p.reset {
		seed, text := p.seed, p.text // copies, because the reply is encoded after the instance is unlocked
		d.Seed, d.Observation = &seed, &text
	}
	return d, nil
}
