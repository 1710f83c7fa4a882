package env

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/openmanus/openmanus/env/action"
)

// Options configures a client. Only BaseURL is required.
type Options struct {
	BaseURL      string
	Parser       action.Parser
	ActionFormat action.Format
	Timeout      time.Duration // of one call, DefaultTimeout if 0
	Timeouts     Timeouts      // of calls by operation
	Attempts     int           // of one call that may be repeated, DefaultAttempts if 0
	MaxReply     int64         // bytes, DefaultMaxReply if 0
	Backoff      time.Duration // before the second attempt, doubled for each further one; 100 ms if 0
	Record       Recorder      // may be nil
	Client       *http.Client  // nil: the process's shared transport

	// Observe, if not nil, receives every attempt of every request. If it
	// returns true the instance is lost, and the request is not repeated.
	Observe func(Attempt) (lost bool)
	// Gate, if not nil, limits the requests under way to its capacity, over all
	// clients that share it.
	Gate chan struct{}
}

// Attempt is one HTTP request of a client, as Options.Observe receives it.
type Attempt struct {
	Op      string   // OpCreate, OpReset and so on
	Failure *Error   // nil if the reply was good
	Marks   []string // faults that env/fault names in the reply's header
}

// HTTPClient returns o.Client, or the client with the process's shared transport.
func (o Options) HTTPClient() *http.Client {
	if o.Client != nil {
		return o.Client
	}
	return sharedClient
}

// Validate returns an error if an environment does not support the parser and
// the action format of o.
func (o Options) Validate(s Spec) error {
	_, err := o.grammar(s)
	return err
}

// Timeouts are the time limits of calls by operation; 0 stands for
// Options.Timeout. Create also applies to a request with which a client prepares
// itself.
type Timeouts struct {
	Create, Reset, Step, Observe, Close time.Duration
}

// of returns the limit of an operation, given the usual limit. Close has at most
// DefaultCloseTimeout by default, since no episode depends on it.
func (t Timeouts) of(op string, usual time.Duration) time.Duration {
	own := map[string]time.Duration{OpCreate: t.Create, OpReset: t.Reset, OpStep: t.Step, OpObserve: t.Observe, OpRecall: t.Observe, OpClose: t.Close}[op]
	switch {
	case own > 0:
		return own
	case op == OpClose:
		return min(usual, DefaultCloseTimeout)
	}
	return usual
}

// grammar returns how the replies in environment s are read, or an error if s
// does not support the parser and format of o.
func (o Options) grammar(s Spec) (action.Grammar, error) {
	g := action.Grammar{Parser: o.Parser, Format: o.ActionFormat}
	switch g.Parser {
	case "":
		g.Parser = action.ParserG2
	case action.ParserG1, action.ParserG2:
	default:
		return g, fmt.Errorf("unknown parser %q: use %q or %q", g.Parser, action.ParserG1, action.ParserG2)
	}
	switch {
	case g.Format == "" || g.Format == action.React:
		g.Format = action.React
	case !g.Format.Calls():
		return g, fmt.Errorf("unknown action format %q: use %q, %q or %q", g.Format, action.React, action.FunctionCalling, action.CodeAsAction)
	case !slices.Contains(s.ActionFormats, g.Format):
		return g, fmt.Errorf("%s does not support the action format %q: only %s do", s.Name, g.Format, strings.Join(withActionFormat(g.Format), ", "))
	case g.Parser == action.ParserG1:
		return g, fmt.Errorf("parser %q does not support the action format %q: use parser %q", g.Parser, g.Format, action.ParserG2)
	}
	return g, nil
}

// withActionFormat lists the environments that support an action format.
func withActionFormat(f action.Format) []string {
	return slices.DeleteFunc(Names(), func(name string) bool {
		s, err := Lookup(name)
		return err != nil || !slices.Contains(s.ActionFormats, f)
	})
}
