package env

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Parser chooses which generation of AgentGym's Python client is followed
// where the two cut the action out of the model's text differently.
type Parser string

// The generations (protocol section 0). The empty Parser means ParserG2.
const (
	ParserG1 Parser = "g1" // the copy inside OpenManus-RL
	ParserG2 Parser = "g2" // AgentGym's current client
)

// ActionFormat chooses how a reply names its action, in the environments
// whose current client can read it in several ways.
type ActionFormat string

// The action formats (protocol section 3). The empty one means ActionReact.
const (
	ActionReact           ActionFormat = "react"            // text after "Action:"
	ActionFunctionCalling ActionFormat = "function_calling" // a JSON object
	ActionCodeAsAction    ActionFormat = "code_as_action"   // a call in Python
)

// Calls reports whether a is a format in which the model calls functions.
func (a ActionFormat) Calls() bool { return a == ActionFunctionCalling || a == ActionCodeAsAction }

// Prompt formats an Instruction can be worded for.
const (
	FormatReact           = "react"                       // Thought: … Action: …, AgentGym's own
	FormatActionTags      = "action_tags"                 // <action>…</action>
	FormatFunctionCalling = string(ActionFunctionCalling) // only where Spec.ActionFormats has it
	FormatCodeAsAction    = string(ActionCodeAsAction)    // likewise
	FormatHistory         = "history"                     // <action>…</action>, the prompt written anew every turn
	FormatStaged          = "staged"                      // likewise, with a memory
	FormatToolCall        = "tool_call"                   // <tool_call>{…}</tool_call>, only where Spec.ToolCall is
)

// Options configures a client. Only BaseURL is required.
type Options struct {
	BaseURL      string
	Parser       Parser
	ActionFormat ActionFormat
	Timeout      time.Duration // of one call, DefaultTimeout if 0
	Timeouts     Timeouts      // of calls of one sort, where they differ
	Attempts     int           // of one repeatable call, DefaultAttempts if 0
	MaxReply     int64         // bytes, DefaultMaxReply if 0
	Backoff      time.Duration // before the second attempt, doubling after; 100 ms if 0
	Record       Recorder      // nil: nothing is recorded
	Client       *http.Client  // nil: the process's shared transport

	// watch, if set, is told of every exchange that was tried.
	watch func(watched)
	// gate, if set, holds as many tokens as requests may be under way.
	gate chan struct{}
}

// Timeouts are the time limits of calls by what they ask for; 0 means
// Options.Timeout. Those of Create hold for a request that a client makes to
// prepare itself, too.
type Timeouts struct {
	Create, Reset, Step, Observe, Close time.Duration
}

// of is the limit of one operation where any has the limit usual.
func (t Timeouts) of(op string, usual time.Duration) time.Duration {
	own := map[string]time.Duration{opCreate: t.Create, opReset: t.Reset, opStep: t.Step, opObserve: t.Observe, opRecall: t.Observe, opClose: t.Close}[op]
	switch {
	case own > 0:
		return own
	case op == opClose: // it is asked for nobody's sake but the server's
		return min(usual, DefaultCloseTimeout)
	}
	return usual
}

// grammar gives how the replies of s are read, or says why they cannot be
// read the way o asks for.
func (o Options) grammar(s Spec) (Parser, ActionFormat, error) {
	p := o.Parser
	switch p {
	case "":
		p = ParserG2
	case ParserG1, ParserG2:
	default:
		return "", "", fmt.Errorf("unknown parser %q: use %q or %q", p, ParserG1, ParserG2)
	}
	a := o.ActionFormat
	switch {
	case a == "" || a == ActionReact:
		return p, ActionReact, nil
	case !a.Calls():
		return "", "", fmt.Errorf("unknown action format %q: use %q, %q or %q", a, ActionReact, ActionFunctionCalling, ActionCodeAsAction)
	case !slices.Contains(s.ActionFormats, a):
		return "", "", fmt.Errorf("the actions of %s have no format %q: only those of %s do", s.Name, a, strings.Join(withActionFormat(a), ", "))
	case p == ParserG1:
		return "", "", fmt.Errorf("parser %q knows no action format %q: use parser %q", p, a, ParserG2)
	}
	return p, a, nil
}

// withActionFormat lists the environments that have an action format.
func withActionFormat(a ActionFormat) []string {
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
func (o Options) parser(name string) (Parser, error) {
	s, err := Lookup(name)
	if err != nil {
		return "", err
	}
	p, _, err := o.grammar(s)
	return p, err
}
