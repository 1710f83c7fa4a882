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
	Timeout      time.Duration // time limit of one call; 0: DefaultTimeout
	Timeouts     Timeouts      // time limits by operation
	Attempts     int           // attempts of a call that may be repeated; 0: DefaultAttempts
	MaxReply     int64         // largest reply in bytes; 0: DefaultMaxReply
	Backoff      time.Duration // pause before the second attempt, doubled for each further attempt; 0: 100 ms
	Record       Recorder      // may be nil
	Client       *http.Client  // nil: the process's shared transport

	// Observe, if not nil, receives every attempt of every request. If it returns
	// true, the instance is lost and the request is not repeated.
	Observe func(Attempt) (lost bool)
	// Gate, if not nil, limits the requests in progress to its capacity, over all
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

// Timeouts are the time limits of calls by operation. 0 stands for Options.Timeout.
// Create also limits the request that prepares a new instance.
type Timeouts struct {
	Create, Reset, Step, Observe, Close time.Duration
}

// of returns the limit of an operation; usual is Options.Timeout. Without a setting
// Close has at most DefaultCloseTimeout, since no episode depends on it.
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

// grammar returns the grammar of the replies in environment s, or an error if s does
// not support the parser and format of o.
func (o Options) grammar(s Spec) (action.Grammar, error) {
	g := action.Grammar{Parser: o.Parser, Format: o.ActionFormat}
	switch g.Parser {
	case "":
		g.Parser = action.ParserG2
	case action.ParserG1, action.ParserG2:
	case action.ParserWhole:
		if !s.Own {
			return g, fmt.Errorf("%s does not support the parser %q, which is for servers of your own: use %q or %q", s.Name, g.Parser, action.ParserG2, action.ParserG1)
		}
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
