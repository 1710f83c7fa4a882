package check

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/env"
)

// environment describes the behaviour of AgentGym's server of an environment.
// All knowledge of environments in this package is in these values.
type environment struct {
	name    string
	section string // of the protocol
	spec    env.Spec

	createBody string // "" if create has no body
	created    shape
	idFrom     string // key of the create reply that holds the id; "" if the reply is the id
	idKey      string // in requests

	taskKey     string // of a reset
	resetMore   string // further keys of a reset
	tasks       []int  // at least two that every server has
	beyond      int    // an invalid index; 0 if every index is valid
	reset       shape
	resetFailed string                 // text of a successful reply to a failed reset, or ""
	opening     func(reset any) string // extracts the first text from the reset reply; nil: observe returns it
	opens       *regexp.Regexp         // pattern of the first text

	step    shape
	textKey string
	doneKey string
	rewards [2]float64 // lowest and highest

	observe     shape // nil: clients do not use GET /observation
	observeSays says

	// actions returns a few actions that change the state and do not end the
	// episode.
	actions func(c *checker, reset any) []string
	endings []ending // nil: none is known
	// unjudged is the reason why no solution is known, or "".
	unjudged string
	goesOn   bool // a step after the end has a normal reply, not the error that the task has finished

	unknown errorForm
	closing closing

	retry503 bool // clients retry after status 503

	slow   bool   // instances are expensive: create few
	varies string // reason why the same actions can give different texts, or ""
	limit  int    // number of instances after which the server reuses ids; 0: none
	quart  bool   // Quart instead of FastAPI: invalid requests are not tested
	extra  check  // of this environment alone; see the check named extra
}

// says is the content of GET /observation.
type says int

const (
	saysAnything says = iota
	saysLast          // the last text
	saysOpening       // the task's first text
)

// errorForm is the form of the server's error replies.
type errorForm int

const (
	errorObject errorForm = iota // E1: status 200 with {"error": text}
	errorServer                  // E2: status 500, text/plain
	errorDetail                  // status 404 or 4xx with {"detail": text}
)

// closing is the reply to POST /close.
type closing int

const (
	closeNone   closing = iota // 404: the endpoint does not exist
	closeBool                  // true, the second time false
	closeOnce                  // true, the second time status 500
	closeObject                // {"closed": text}
)

var environments = slices.Concat(games, tools)

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
			var err error
			e.spec, err = env.Lookup(name)
			return e, err
		}
	}
	return environment{}, fmt.Errorf("environment %q has no checks; use one of %s", name, strings.Join(Names(), ", "))
}

// Shapes shared by several servers.
var (
	textReply  = keys{{"observation", text}, {"reward", number}, {"done", boolean}}
	scoreReply = keys{{"observation", text}, {"reward", number}, {"score", number}, {"done", boolean}}
	stateReply = keys{{"state", text}, {"reward", number}, {"done", boolean}, {"info", whole}}
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

// always returns the same actions for every task.
func always(actions ...string) func(*checker, any) []string {
	return func(*checker, any) []string { return actions }
}

// repeat repeats an action at most n times.
func repeat(action string, n int) func(*checker, string, int) string {
	return func(_ *checker, _ string, i int) string {
		if i >= n {
			return ""
		}
		return action
	}
}
