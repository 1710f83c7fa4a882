package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/openmanus/openmanus/env"
)

// Defaults of Options.
const (
	DefaultTimeout = 60 * time.Second
	DefaultSteps   = 30
	DefaultIdle    = env.IdleTimeout // clients close a connection after this idle time
)

// maxTimeouts is the number of timed-out calls after which the remaining checks
// are skipped.
const maxTimeouts = 3

// Options selects the server and the checks.
type Options struct {
	URL string
	Env string // one of Names
	// Actions replaces the actions that are sent to a server of env.KindAgentGym.
	Actions []string
	Tasks   []int         // two or more valid tasks; nil: tasks that exist on every server of the environment
	Timeout time.Duration // limit of one call; 0: DefaultTimeout
	Steps   int           // steps for the latency measurement; 0: DefaultSteps
	Idle    time.Duration // time that an idle connection must stay open; 0: DefaultIdle
	// Limit enables the check of the instance limit. It disturbs other clients of the
	// server: it creates instances until the server returns an instance that is in use.
	Limit bool
}

// Run checks a server. It returns an error for invalid options or a canceled
// ctx; failures of the server are in the report.
func Run(ctx context.Context, o Options) (*Report, error) {
	e, err := lookup(o.Env)
	if err != nil {
		return nil, err
	}
	base, err := env.BaseURL(o.URL, e.spec.PathSuffix)
	if err != nil {
		return nil, err
	}
	if o.Tasks != nil {
		if len(o.Tasks) < 2 || o.Tasks[0] == o.Tasks[1] {
			return nil, fmt.Errorf("tasks %v: two different tasks are needed to distinguish sessions", o.Tasks)
		}
		e.tasks = o.Tasks
	}
	if o.Actions != nil {
		if e.name != env.KindAgentGym {
			return nil, fmt.Errorf("the actions of %s are known: give none", e.name)
		}
		e.actions = always(o.Actions...)
	}
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Steps = cmp.Or(o.Steps, DefaultSteps)
	o.Idle = cmp.Or(o.Idle, DefaultIdle)
	c := &checker{
		ctx: ctx, env: e, o: o, wire: wire{base, o.Timeout}, root: wire{strings.TrimSuffix(base, e.spec.PathSuffix), o.Timeout},
		took: map[string][]time.Duration{}, closeIdle: func() {},
	}
	began := time.Now()
	report := &Report{URL: base, Env: e.name}
	defer func() { c.closeIdle() }()
	for _, k := range checks {
		if k.applies != nil && !k.applies(e) {
			continue
		}
		if k.name == extra {
			k.name, k.expected, k.run = e.extra.name, e.extra.expected, e.extra.run
		}
		report.Results = append(report.Results, c.result(k))
		if err := ctx.Err(); err != nil {
			c.closeAll()
			return nil, context.Cause(ctx)
		}
	}
	report.Left = c.closeAll()
	report.Latency = c.latencies()
	report.Requests, report.Unreachable = c.requests, c.unreachable
	report.Seconds = math.Round(time.Since(began).Seconds()*1000) / 1000
	return report, nil
}

// check is one line of a report. It is skipped if its need is not met.
type check struct {
	name     string
	section  string // section of the protocol; "": the environment's section
	need     need
	applies  func(environment) bool
	expected string
	expects  func(environment) string // computes the field expected for an environment, or nil
	run      func(c *checker, n *notes)
}

// extra is the name of one entry in the variable checks. Run replaces this entry by environment.extra.
const extra = "extra"

type need int

const (
	needServer   need = iota // the server answers
	needInstance             // create works
	needPlay                 // reset and step work
	needEnd                  // an episode has ended
)

// checker is the state of one call of Run.
type checker struct {
	ctx  context.Context // the context of Run
	env  environment
	o    Options
	wire wire
	root wire // sends to the address without Spec.PathSuffix

	sessions    []session // the first two play episodes; the others test concurrency
	playable    bool
	varying     string          // reason why texts cannot be compared, or ""
	words       []string        // wordle's vocabulary
	plan        []string        // actions that reach the goal of the current textcraft task
	ended       *session        // an instance with an ended episode
	final       any             // the last reply of ended's episode
	solo        []*transcript   // the transcripts of both tasks, each played without another session
	idle        context.Context // done when the idle connection ends, or after Options.Idle
	closeIdle   func()
	unreachable bool

	mu       sync.Mutex
	open     []string                   // ids of instances that were not closed; guarded by mu
	requests int                        // guarded by mu
	timeouts int                        // guarded by mu
	unsized  int                        // replies without Content-Length; guarded by mu
	took     map[string][]time.Duration // guarded by mu
}

// session is an instance on the server.
type session struct{ id string } // the id as JSON

// named reports whether the id is a string, not a number.
func (s session) named() bool { return strings.HasPrefix(s.id, `"`) }

// result runs the check k and returns its result.
func (c *checker) result(k check) Result {
	r := Result{Check: k.name, Protocol: protocol + c.env.section, Expected: k.expected}
	if k.section != "" {
		r.Protocol = protocol + k.section
	}
	if k.expects != nil {
		r.Expected = k.expects(c.env)
	}
	var n notes
	switch {
	case c.unreachable:
		n.skip("the server does not answer")
	case c.timeouts >= maxTimeouts:
		n.skip(fmt.Sprintf("%d calls exceeded the time limit of %v", c.timeouts, c.o.Timeout))
	case k.need >= needInstance && len(c.sessions) == 0:
		n.skip("no instance could be created")
	case k.need >= needPlay && !c.playable:
		n.skip("no episode could be played")
	case k.need >= needEnd && c.ended == nil:
		n.skip("no episode ended")
	default:
		k.run(c, &n)
	}
	r.Status, r.Came, r.Reason = n.sum()
	return r
}

// send makes one request and counts it.
func (c *checker) send(op string, r request) (reply, error) {
	got, err := c.wire.do(c.ctx, fresh, r)
	c.count(op, got, err)
	return got, err
}

func (c *checker) count(op string, got reply, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	switch {
	case errors.Is(err, errTimeout):
		c.timeouts++
	case err == nil:
		c.took[op] = append(c.took[op], got.took)
		if !got.sized {
			c.unsized++
		}
	}
}

// post returns a request with a JSON body, or without a body if body is "".
func (c *checker) post(path, body string) request {
	r := request{method: http.MethodPost, target: path, body: body}
	if body != "" {
		r.kind = "application/json"
	}
	return r
}

func (c *checker) get(path, query string) request {
	if query != "" {
		path += "?" + query
	}
	return request{method: http.MethodGet, target: path}
}

// query returns the query string of a GET for s.
func (c *checker) query(s session) string { return c.env.idKey + "=" + url.QueryEscape(unquote(s.id)) }

// require sends a request that must succeed and returns the decoded reply, which has the
// shape want. Otherwise it records a failure in n and returns false.
func (c *checker) require(n *notes, op string, r request, want shape) (any, bool) {
	got, err := c.send(op, r)
	// webshop and sqlgym return 503 before they act, and clients retry.
	for tries := 0; tries < 2 && c.env.retry503 && err == nil && got.status == http.StatusServiceUnavailable; tries++ {
		n.warn("AgentGym's clients of this environment retry after it", "status 503 to %s", op)
		got, err = c.send(op, r)
	}
	what := r.method + " " + r.target
	if err != nil {
		n.fail("%s: %v", what, err)
		return nil, false
	}
	v, fault := c.judge(n, what, got, want)
	if fault != "" {
		n.fail("%s: %s", what, fault)
		return nil, false
	}
	return v, true
}

// judge decodes a reply that must be a success with the shape want, and warns if the
// content type of a success is not JSON. fault is "" for a success.
func (c *checker) judge(n *notes, what string, got reply, want shape) (v any, fault string) {
	v, fault = success(got, want)
	if media, _, err := mime.ParseMediaType(got.header.Get("Content-Type")); fault == "" && (err != nil || media != "application/json") {
		n.warn("clients ignore the content type", "%s: JSON with content type %q", what, got.header.Get("Content-Type"))
	}
	return v, fault
}

// success decodes a reply that must be a success with the shape want. fault is "" for a success.
func success(got reply, want shape) (v any, fault string) {
	if got.status != http.StatusOK {
		return nil, show(got)
	}
	v, err := decode(got.body)
	if err != nil {
		return nil, fmt.Sprintf("%s: invalid JSON: %v", show(got), err)
	}
	if e, ok := errorText(v); ok {
		return nil, fmt.Sprintf("the error %q", short(e, 120))
	}
	return v, want.fault("the reply", v)
}

// show describes an unexpected reply.
func show(r reply) string {
	kind, _, _ := mime.ParseMediaType(r.header.Get("Content-Type"))
	if looksLikeHTML(r.body) {
		kind = "an HTML page"
	}
	s := fmt.Sprintf("status %d", r.status)
	if kind != "" {
		s += ", " + kind
	}
	if len(r.body) == 0 {
		return s + ", empty"
	}
	return s + ": " + short(string(r.body), 100)
}

// latencies summarizes the durations of calls by kind.
func (c *checker) latencies() map[string]Latency {
	all := map[string]Latency{}
	for op, took := range c.took {
		if !slices.Contains(operations, op) {
			continue
		}
		slices.Sort(took)
		at := func(q float64) float64 {
			return millis(took[min(len(took)-1, int(math.Ceil(q*float64(len(took))))-1)])
		}
		all[op] = Latency{Calls: len(took), P50: at(0.5), P90: at(0.9), P99: at(0.99), Max: millis(took[len(took)-1])}
	}
	return all
}

// operations are the kinds of calls in the latency table, in order. Invalid
// requests are excluded.
var operations = []string{"create", "reset", "step", "observe", "close"}

// opBad is the kind of intentionally invalid requests.
const opBad = "bad request"
