package engine

// Session is one growing context inside an Engine. Its state belongs to the
// engine that opened it.
type Session struct {
	options SessionOptions
	state   any
}

// NewSession is for implementations of Engine: it makes a session that carries
// the implementation's own state.
func NewSession(o SessionOptions, state any) *Session {
	return &Session{options: o, state: state}
}

// Options returns what the session was opened with.
func (s *Session) Options() SessionOptions { return s.options }

// State returns what NewSession was given.
func (s *Session) State() any { return s.state }
