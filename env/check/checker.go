package check

import (
	"context"
	"errors"
	"fmt"
	"math"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/openmanus/openmanus/env"
)

// The limits where Options leaves them open.
const (
	DefaultTimeout = 60 * time.Second
	DefaultSteps   = 30
	DefaultIdle    = env.IdleTimeout // clients keep no connection for longer
)

// maxTimeouts is how many calls may run into the time limit before the rest of
// the checks is given up.
const maxTimeouts = 3

// Options says what is checked.
type Options struct {
	URL     string
	Env     string        // one of Names
	Tasks   []int         // two or more tasks the server has; nil: those any server of the environment should have
	Timeout time.Duration // of one call, DefaultTimeout if 0
	Steps   int           // steps made to measure latency, DefaultSteps if 0
	Idle    time.Duration // how long a connection without requests has to last, DefaultIdle if 0
	// Limit makes instances until the server gives one out that is in use. Who
	// else plays there has to share its instances from then on.
	Limit bool
}

// Run checks a server. Its error is about the options or ctx: whatever the
// server does is in the report.
func Run(ctx context.Context, o Options) (*Report, error) {
	e, err := lookup(o.Env)
	if err != nil {
		return nil, err
	}
	spec, err := env.Lookup(o.Env)
	if err != nil {
		return nil, err
	}
	e.single = spec.MaxInstances == 1
	base, err := env.BaseURL(o.URL, e.suffix)
	if err != nil {
		return nil, err
	}
	if o.Tasks != nil {
		if len(o.Tasks) < 2 || o.Tasks[0] == o.Tasks[1] {
			return nil, fmt.Errorf("tasks %v: give two different ones, so that sessions can be told apart", o.Tasks)
		}
		e.tasks = o.Tasks
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Steps <= 0 {
		o.Steps = DefaultSteps
	}
	if o.Idle <= 0 {
		o.Idle = DefaultIdle
	}
	w, err := newWire(base, o.Timeout)
	if err != nil {
		return nil, err
	}
	c := &checker{ctx: ctx, env: e, o: o, wire: w, root: len(w.prefix) - len(e.suffix), tools: spec.Tools, took: map[string][]time.Duration{}}
	began := time.Now()
	report := &Report{URL: base, Env: e.name}
	defer c.closeIdle()
	for _, k := range checks {
		if k.applies != nil && !k.applies(e) {
			continue
		}
		report.Results = append(report.Results, c.result(k))
		if err := ctx.Err(); err != nil {
			c.giveBack()
			return nil, context.Cause(ctx)
		}
	}
	report.Left = c.giveBack()
	report.Latency = c.latencies()
	report.Requests, report.Unreachable = c.requests, c.unreachable
	report.Seconds = math.Round(time.Since(began).Seconds()*1000) / 1000
	return report, nil
}

// check is one line of a report. need says what must have worked before.
type check struct {
	name     string // "" for the environment's own check, which brings its name
	section  string // "" for the environment's own
	need     need
	applies  func(environment) bool
	expected func(environment) string
	run      func(c *checker, n *notes)
}

type need int

const (
	needServer   need = iota // somebody answers
	needInstance             // create works
	needPlay                 // reset and step work
)

// checker is a run under way.
type checker struct {
	ctx  context.Context // of the one Run that made it
	env  environment
	o    Options
	wire *wire
	root int // length of the prefix that is the server's, without the suffix

	sessions    []session // the first two play, the others are there to be many
	playable    bool
	varying     string        // why texts cannot be compared, "" if they can
	words       []string      // wordle's
	tools       []string      // a tool server's, as the model is told of them
	plan        []string      // textcraft's way to the end
	ended       *session      // the instance whose episode has ended
	final       any           // the reply that said so
	alones      []*transcript // of the two tasks on one session
	idle        *link         // a connection left alone
	dropped     chan bool     // gets once whether it ended within Options.Idle
	unreachable bool

	mu       sync.Mutex
	open     []string                   // ids of instances that were not closed; guarded by mu
	requests int                        // guarded by mu
	timeouts int                        // guarded by mu
	unsized  int                        // replies without Content-Length; guarded by mu
	took     map[string][]time.Duration // guarded by mu
}

// session is an instance on the server.
type session struct{ id string } // as JSON

// result runs one check.
func (c *checker) result(k check) Result {
	r := Result{Check: k.name, Protocol: protocol + c.env.section, Expected: k.expected(c.env)}
	if k.section != "" {
		r.Protocol = protocol + k.section
	}
	if k.name == "" {
		r.Check = c.env.extra.name
	}
	var n notes
	switch {
	case c.unreachable:
		n.skip("nobody answers at the address")
	case c.timeouts >= maxTimeouts:
		n.skip(fmt.Sprintf("%d calls ran into the time limit of %v: the rest is given up", c.timeouts, c.o.Timeout))
	case k.need >= needInstance && len(c.sessions) == 0:
		n.skip("no instance could be created")
	case k.need >= needPlay && !c.playable:
		n.skip("no episode could be played")
	default:
		k.run(c, &n)
	}
	r.Status, r.Came, r.Reason = n.sum()
	return r
}

// send makes one request and keeps count.
func (c *checker) send(op string, r request) (reply, error) {
	got, err := c.wire.do(c.ctx, r)
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

// post is a request with a JSON body, none if body is empty.
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

// query names a session in a GET.
func (c *checker) query(s session) string { return c.env.idKey + "=" + url.QueryEscape(unquote(s.id)) }

// want sends a request that must succeed and gives the decoded reply, which
// has the shape. What is wrong goes to n.
func (c *checker) want(n *notes, op string, r request, is shape) (any, bool) {
	got, err := c.send(op, r)
	// Clients of webshop and sqlgym bear a 503, which those servers answer
	// before they act.
	for tries := 0; tries < 2 && c.env.retry503 && err == nil && got.status == http.StatusServiceUnavailable; tries++ {
		n.warn("AgentGym's clients of this environment send a request again after it", "status 503 to %s", op)
		got, err = c.send(op, r)
	}
	what := r.method + " " + r.target
	if err != nil {
		n.fail("%s: %v", what, err)
		return nil, false
	}
	v, fault := c.judge(n, what, got, is)
	if fault != "" {
		n.fail("%s: %s", what, fault)
		return nil, false
	}
	return v, true
}

// judge decodes a reply that should be a success.
func (c *checker) judge(n *notes, what string, got reply, is shape) (v any, fault string) {
	if got.status != http.StatusOK {
		return nil, show(got)
	}
	v, err := decode(got.body)
	if err != nil {
		return nil, fmt.Sprintf("%s: no JSON: %v", show(got), err)
	}
	if e, ok := errorText(v); ok {
		return nil, fmt.Sprintf("the error %q", short(e, 120))
	}
	if fault := is.fault("the reply", v); fault != "" {
		return nil, fault
	}
	if media, _, err := mime.ParseMediaType(got.header.Get("Content-Type")); err != nil || media != "application/json" {
		n.warn("clients decode the body whatever its type", "%s: JSON with content type %q", what, got.header.Get("Content-Type"))
	}
	return v, ""
}

// show describes a reply that was not looked for.
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

// latencies sums up what calls took.
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

// operations are the kinds of calls whose times a report gives, in order.
// Requests that are wrong on purpose are not among them.
var operations = []string{"create", "reset", "step", "observe", "close"}

// opBad is the kind of requests that are wrong on purpose.
const opBad = "bad request"
