package env

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/openmanus/openmanus/env/action"
)

// Prompt formats an Instruction can be worded for.
const (
	FormatReact           = "react"                        // Thought: … Action: …, AgentGym's own
	FormatActionTags      = "action_tags"                  // <action>…</action>
	FormatFunctionCalling = string(action.FunctionCalling) // only where Spec.ActionFormats has it
	FormatCodeAsAction    = string(action.CodeAsAction)    // likewise
	FormatHistory         = "history"                      // <action>…</action>, the prompt written anew every turn
	FormatStaged          = "staged"                       // likewise, with a memory
	FormatToolCall        = "tool_call"                    // <tool_call>{…}</tool_call>, only where Spec.ToolCall is
)

// Options configures a client. Only BaseURL is required.
type Options struct {
	BaseURL      string
	Parser       action.Parser
	ActionFormat action.Format
	Timeout      time.Duration // of one call, DefaultTimeout if 0
	Timeouts     Timeouts      // of calls of one sort, where they differ
	Attempts     int           // of one repeatable call, DefaultAttempts if 0
	MaxReply     int64         // bytes, DefaultMaxReply if 0
	Backoff      time.Duration // before the second attempt, doubling after; 100 ms if 0
	Record       Recorder      // nil: nothing is recorded
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
	_, _, err := o.grammar(s)
	return err
}

// Timeouts are the time limits of calls by what they ask for; 0 means
// Options.Timeout. Those of Create hold for a request that a client makes to
// prepare itself, too.
type Timeouts struct {
	Create, Reset, Step, Observe, Close time.Duration
}

// of is the limit of one operation where any has the limit usual.
func (t Timeouts) of(op string, usual time.Duration) time.Duration {
	own := map[string]time.Duration{OpCreate: t.Create, OpReset: t.Reset, OpStep: t.Step, OpObserve: t.Observe, OpRecall: t.Observe, OpClose: t.Close}[op]
	switch {
	case own > 0:
		return own
	case op == OpClose: // it is asked for nobody's sake but the server's
		return min(usual, DefaultCloseTimeout)
	}
	return usual
}

// grammar gives how the replies of s are read, or says why they cannot be
// read the way o asks for.
func (o Options) grammar(s Spec) (action.Parser, action.Format, error) {
	p := o.Parser
	switch p {
	case "":
		p = action.ParserG2
	case action.ParserG1, action.ParserG2:
	default:
		return "", "", fmt.Errorf("unknown parser %q: use %q or %q", p, action.ParserG1, action.ParserG2)
	}
	a := o.ActionFormat
	switch {
	case a == "" || a == action.React:
		return p, action.React, nil
	case !a.Calls():
		return "", "", fmt.Errorf("unknown action format %q: use %q, %q or %q", a, action.React, action.FunctionCalling, action.CodeAsAction)
	case !slices.Contains(s.ActionFormats, a):
		return "", "", fmt.Errorf("the actions of %s have no format %q: only those of %s do", s.Name, a, strings.Join(withActionFormat(a), ", "))
	case p == action.ParserG1:
		return "", "", fmt.Errorf("parser %q knows no action format %q: use parser %q", p, a, action.ParserG2)
	}
	return p, a, nil
}

// withActionFormat lists the environments that have an action format.
func withActionFormat(a action.Format) []string {
	var names []string
	for _, name := range Names() {
		if s, err := Lookup(name); err == nil && slices.Contains(s.ActionFormats, a) {
			names = append(names, name)
		}
	}
	return names
}

// parser is grammar of a registered environment that has actions in text
// only.
func (o Options) parser(name string) (action.Parser, error) {
	s, err := Lookup(name)
	if err != nil {
		return "", err
	}
	p, _, err := o.grammar(s)
	return p, err
}

// newAdapter reads the options of the environment called name.
func newAdapter(name string, o Options, fs action.Functions) (action.Grammar, error) {
	s, err := Lookup(name)
	if err != nil {
		return action.Grammar{}, err
	}
	p, a, err := o.grammar(s)
	return action.Grammar{Parser: p, Format: a, Functions: fs}, err
}
