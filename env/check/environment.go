package check

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// environment describes how AgentGym's own server of an environment behaves.
// The checks read it; nothing else in this package knows an environment.
type environment struct {
	name    string
	section string // of the protocol
	suffix  string // of every path but the greeting's

	greeting string // what GET / answers

	createBody string // "" if create takes none
	created    shape
	idFrom     string // key of the create reply that holds the id; "" if the reply is the id
	idKey      string // in requests

	taskKey   string // of a reset
	resetMore string // further keys of a reset
	tasks     []int  // two or more that any server should have
	beyond    int    // an index no server has; 0 if every index is a task
	reset     shape
	gaveUp    string                 // the text of a reset that failed though it was answered; "" where there is none such
	opening   func(reset any) string // the first text, out of the reset reply; nil: observe answers it
	opens     *regexp.Regexp         // what the first text looks like

	step    shape
	textKey string
	doneKey string
	rewards [2]float64 // lowest and highest

	observe     shape // nil: there is no GET /observation that clients use
	observeSays says

	// actions gives a few that change an instance and do not end the episode.
	actions func(c *checker, reset any) []string
	endings []ending // nil: there is no way to the end without playing well
	// unjudged says why no way to the goal is known; "" where one is.
	unjudged string
	over     over

	unknown errorForm
	closing closing

	retry503 bool // clients send again after status 503

	slow   bool   // an instance takes seconds or much memory: make few
	varies string // why the same actions may give other texts
	single bool   // a server is for one instance at a time
	limit  int    // instances a server holds before it hands ids out again; 0: many
	quart  bool   // not FastAPI: bad requests are not looked for
	extra  *extra
}

// says is what GET /observation answers.
type says int

const (
	saysAnything says = iota
	saysLast          // the last text
	saysOpening       // the task, whatever was done since
)

// over is what a step gets once the episode has ended.
type over int

const (
	overRefused over = iota // error object: the task has finished
	overGoesOn              // a reply like any other
)

// errorForm is how a server refuses what the environment cannot do.
type errorForm int

const (
	errorObject errorForm = iota // E1: status 200 with {"error": text}
	errorServer                  // E2: status 500, text/plain
	errorDetail                  // status 404 or 4xx with {"detail": text}
)

// closing is what POST /close answers.
type closing int

const (
	closeNone   closing = iota // 404: there is no such endpoint
	closeBool                  // true, the second time false
	closeOnce                  // true, the second time status 500
	closeObject                // {"closed": text}
)

// extra is a check that only one environment has.
type extra struct {
	name     string
	expected string
	run      func(c *checker, n *notes)
}

var environments = slices.Concat(games, tools)

// Names lists the environments that can be checked.
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
			return e, nil
		}
	}
	return environment{}, fmt.Errorf("no environment %q can be checked: there are %s", name, strings.Join(Names(), ", "))
}

// The shapes most servers share.
var (
	textReply  = keys{{"observation", text}, {"reward", number}, {"done", boolean}}
	toolReply  = textReply
	scoreReply = keys{{"observation", text}, {"reward", number}, {"score", number}, {"done", boolean}}
	stateReply = keys{{"state", text}, {"reward", number}, {"done", boolean}, {"info", whole}}
	pairReply  = tuple{text, null}
)

// field takes a text out of a decoded object, "" if it is not there.
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

// always gives the same actions whatever the task.
func always(actions ...string) func(*checker, any) []string {
	return func(*checker, any) []string { return actions }
}

// repeat gives the same action again, at most n times.
func repeat(action string, n int) func(*checker, string, int) string {
	return func(_ *checker, _ string, i int) string {
		if i >= n {
			return ""
		}
		return action
	}
}
