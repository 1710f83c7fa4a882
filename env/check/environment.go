package check

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/env"
)

// environment describes the behaviour of AgentGym's server of one environment. The
// rest of the package depends on environments only through these values.
type environment struct {
	name    string
	section string // section of the protocol
	spec    env.Spec

	createBody string // "" if create has no body
	created    shape
	idFrom     string // key of the id in the reply to create; "": the reply is the id
	idKey      string // key of the id in requests

	taskKey     string // key of the task in a reset
	resetMore   string // further keys of a reset
	tasks       []int  // at least two tasks that exist on every server
	beyond      int    // an invalid task; 0: every task is valid
	reset       shape
	resetFailed string                 // text of a successful reply to a failed reset, or ""
	opening     func(reset any) string // returns the first text from the reply to reset; nil: GET /observation returns the text
	opens       *regexp.Regexp         // pattern of the first text

	step    shape
	textKey string
	doneKey string
	rewards [2]float64 // the lowest and the highest reward

	observe  shape // shape of GET /observation; nil: clients do not send it
	observed observedText

	// actions returns a few actions that change the state and do not end the
	// episode.
	actions func(c *checker, reset any) []string
	endings []ending // nil: no ending is known
	// noSolution is the reason why no solution is known, or "".
	noSolution    string
	stepsAfterEnd bool // the reply to a step after the end is normal; false: it is an error

	unknown errorForm
	closing closing

	retry503 bool // clients retry a request after status 503

	slow   bool   // instances are expensive: create few
	varies string // reason why the same actions can give different texts, or ""
	limit  int    // number of instances after which the server reuses ids; 0: none
	quart  bool   // the server uses Quart, not FastAPI: invalid requests are not tested
	// noDialect means that the server may reject invalid requests in its own words.
	noDialect bool
	extra     check // a check for this environment only
}

// observedText is the text that GET /observation returns.
type observedText int

const (
	observedAny   observedText = iota
	observedLast               // the text of the last reply
	observedFirst              // the first text of the task
)

// errorForm is the form of the server's error replies.
type errorForm int

const (
	errorObject errorForm = iota // status 200 with {"error": text}
	errorServer                  // status 500, text/plain
	errorDetail                  // status 404 or 4xx with {"detail": text}
)

// closing is the server's reply to POST /close.
type closing int

const (
	closeNone   closing = iota // 404: the endpoint does not exist
	closeBool                  // true; if the instance is already closed, false
	closeOnce                  // true; if the instance is already closed, status 500
	closeObject                // {"closed": text}
	closeAny                   // any JSON value
)

var environments = slices.Concat(games, tools, []environment{own})

// Names returns the environments that can be checked, sorted.
func Names() []string {
	var names []string
	for _, e := range environments {
		names = append(names, e.name)
	}
	slices.Sort(names)
	return names
}

func lookup(name string) (environment, error) {
	for _, e := range environments {
		if e.name == name {
			if name == env.KindAgentGym {
				e.spec = env.AgentGym(name, env.Own{})
				return e, nil
			}
			var err error
			e.spec, err = env.Lookup(name)
			return e, err
		}
	}
	return environment{}, fmt.Errorf("environment %q has no checks; use one of %s", name, strings.Join(Names(), ", "))
}

// The following shapes are shared by several servers.
var (
	textReply  = keys{{"observation", text}, {"reward", number}, {"done", boolean}}
	scoreReply = keys{{"observation", text}, {"reward", number}, {"score", number}, {"done", boolean}}
	stateReply = keys{{"state", text}, {"reward", number}, {"done", boolean}, {"info", anyValue}}
	pairReply  = tuple{text, null}
)

// field returns a string field of a decoded object, or "".
func field(v any, name string) string {
	o, _ := v.(map[string]any)
	s, _ := o[name].(string)
	return s
}

func observationOf(reset any) string { return field(reset, "observation") }

func firstOf(reset any) string {
	if items, _ := reset.([]any); len(items) > 0 {
		s, _ := items[0].(string)
		return s
	}
	return ""
}

func bareText(reset any) string {
	s, _ := reset.(string)
	return s
}

// always returns an environment.actions with the same actions for every task.
func always(actions ...string) func(*checker, any) []string {
	return func(*checker, any) []string { return actions }
}

// repeat returns an ending.action that repeats an action n times.
func repeat(action string, n int) func(*checker, string, int) string {
	return func(_ *checker, _ string, i int) string {
		if i >= n {
			return ""
		}
		return action
	}
}
