package env

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/openmanus/openmanus/env/action"
)

// server describes the servers of an environment: their requests and replies, and how
// to read the action out of the model's reply.
type server struct {
	create string // the body of /create; "": no body
	reset  string // the body of /reset as a format of the task's index and the instance's id

	// indexed servers call the instance "env_idx" instead of "id". They return only
	// the id, and the current observation as a JSON string under /observation.
	indexed bool
	keyedID bool // the reply of an indexed server to /create is an object that contains the id
	textID  bool // the id is a string, not an integer
	// checkReset checks an indexed server's reply to /reset. Like AgentGym's clients,
	// an instance does not use this reply. If checkReset is nil, the reply must be a string.
	checkReset func(*instance, json.RawMessage) error

	// opening lists the keys of the reply to /reset that make up the first
	// observation. nil stands for "observation".
	opening []string
	// actions, if not nil, returns the text with the current actions. This text is
	// part of the first observation and of the reply to an invalid action.
	actions func(*object) string
	// prepare, if not nil, is called once after /create.
	prepare func(context.Context, *instance) error

	// parse reads the action out of the model's reply. If ok is false, nothing is
	// sent, and the observation is refusal or, if refusal is "", action.Invalid with
	// the current observation. If parse is nil, the whole reply is sent.
	parse     func(g action.Grammar, reply string) (act string, ok bool)
	refusal   string
	functions action.Functions

	// Keys in the reply to /step. The defaults are "observation", "reward" and "done".
	textKey, rewardKey, doneKey string
	// adjust, if not nil, changes the result of a step.
	adjust func(*StepResult)
	// detail means that GET /detail returns the observation, reward and end of the last step.
	detail bool
	// stepRetry503 allows the client to repeat a step after status 503, as upstream's clients of
	// webshop and sqlgym do: a server that replies with 503 has not executed the step.
	stepRetry503 bool

	closes bool   // whether the client calls /close, as AgentGym's client does
	closed string // a reply to /close that is valid although it is not JSON

	ownCall string // see toolEnv.ownCall

	idKey string // key of the instance's id in requests; set by register
}

// instance is an environment instance on a server. A call while another call is
// in progress returns ErrBusy.
type instance struct {
	*caller
	id   json.RawMessage
	busy atomic.Bool

	// Guarded by busy.
	closed  bool
	preface string // text before every first observation
	shown   string // the current observation, with its actions
	known   bool   // whether shown belongs to the current episode
	tried   string // the action of the last step
}

// register adds the environment called name; s describes its servers.
func register(name string, s server, spec Spec) {
	spec.Name = name
	Register(name, s.over(spec))
}

// over returns spec with clients of the servers that s describes.
func (s server) over(spec Spec) Spec {
	s.idKey = "id"
	if s.indexed {
		s.idKey = "env_idx"
	}
	if s.opening == nil {
		s.opening = []string{"observation"}
	}
	if s.checkReset == nil {
		s.checkReset = (*instance).isText
	}
	s.textKey = cmp.Or(s.textKey, "observation")
	s.rewardKey = cmp.Or(s.rewardKey, "reward")
	s.doneKey = cmp.Or(s.doneKey, "done")
	own := spec
	spec.New = func(ctx context.Context, o Options) (Client, error) { return newInstance(ctx, own, s, o) }
	return spec
}

// newInstance creates an instance of an environment.
func newInstance(ctx context.Context, spec Spec, s server, o Options) (Client, error) {
	c, err := newCaller(spec, o, s)
	if err != nil {
		return nil, err
	}
	in := &instance{caller: c}
	raw, err := in.post(ctx, OpCreate, "/create", s.create)
	if err != nil {
		return nil, err
	}
	if in.id, err = in.readID(raw); err != nil {
		return nil, err
	}
	if s.prepare != nil {
		if err := s.prepare(ctx, in); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// ServerID returns the id that the server gave the instance, as JSON: a number or a string.
func (in *instance) ServerID() string { return string(in.id) }

// query returns the query string of a GET for the instance.
func (in *instance) query() string {
	id := string(in.id)
	if in.server.textID {
		_ = json.Unmarshal(in.id, &id) // readID has checked the JSON
	}
	return "?" + in.server.idKey + "=" + url.QueryEscape(id)
}

// enter reserves the instance for one call. The caller must defer leave.
func (in *instance) enter() error {
	if !in.busy.CompareAndSwap(false, true) {
		return ErrBusy
	}
	if in.closed {
		in.busy.Store(false)
		return ErrClosed
	}
	return nil
}

func (in *instance) leave() { in.busy.Store(false) }

// Reset posts the task to /reset.
func (in *instance) Reset(ctx context.Context, index int) (Obs, error) {
	if err := in.spec.CheckIndex(index); err != nil {
		return Obs{}, err
	}
	if err := in.enter(); err != nil {
		return Obs{}, err
	}
	defer in.leave()
	in.known = false
	raw, err := in.post(ctx, OpReset, "/reset", fmt.Sprintf(in.server.reset, index, in.id))
	if err != nil {
		return Obs{}, err
	}
	first, err := in.first(ctx, raw)
	if err != nil {
		return Obs{}, err
	}
	in.shown, in.known = first, true
	return Obs{Text: in.preface + first}, nil
}

// first returns the first observation. raw is the reply to /reset.
func (in *instance) first(ctx context.Context, raw json.RawMessage) (string, error) {
	if in.server.indexed {
		if err := in.server.checkReset(in, raw); err != nil {
			return "", err
		}
		return in.current(ctx)
	}
	r := in.object(OpReset, "/reset", raw)
	var texts []string
	for _, key := range in.server.opening {
		var text string
		r.read(key, &text)
		texts = append(texts, text)
	}
	first := strings.Join(texts, "\n") + in.listed(r)
	return first, r.err
}

// listed returns the text with the actions in a reply.
func (in *instance) listed(r *object) string {
	if in.server.actions == nil {
		return ""
	}
	return in.server.actions(r)
}

// current returns the current observation. The caller has called enter.
func (in *instance) current(ctx context.Context) (string, error) {
	if !in.server.indexed {
		return in.shown, nil
	}
	path := "/observation" + in.query()
	raw, err := in.get(ctx, OpObserve, path)
	if err != nil {
		return "", err
	}
	return in.bareText(OpObserve, path, raw)
}

// Step posts the action of a reply to /step.
func (in *instance) Step(ctx context.Context, reply string) (StepResult, error) {
	if err := in.enter(); err != nil {
		return StepResult{}, err
	}
	defer in.leave()
	if in.server.parse != nil {
		var ok bool
		if reply, ok = in.server.parse(in.grammar, reply); !ok {
			return in.refuse(ctx)
		}
	}
	act := strings.ToValidUTF8(reply, "\uFFFD") // some servers fail on invalid UTF-8
	in.tried = act
	sent := StepResult{Action: act, Sent: true}
	raw, err := in.post(ctx, OpStep, "/step", fmt.Sprintf(`{"action":%s,%q:%s}`, quote(act), in.server.idKey, in.id))
	if err != nil {
		var e *Error
		sent.Sent = errors.As(err, &e) && e.Sent
		return sent, err
	}
	r := in.object(OpStep, "/step", raw)
	res := sent
	in.readStep(r, &res)
	shown := res.Observation + in.listed(r)
	if r.err != nil {
		return sent, r.err
	}
	in.shown = shown
	if in.server.adjust != nil {
		in.server.adjust(&res)
	}
	return res, nil
}

// refuse returns the observation for a reply without a valid action.
func (in *instance) refuse(ctx context.Context) (StepResult, error) {
	if in.server.refusal != "" {
		return StepResult{Observation: in.server.refusal}, nil
	}
	now, err := in.current(ctx)
	if err != nil {
		return StepResult{}, err
	}
	return StepResult{Observation: action.Invalid + now}, nil
}

// readStep reads the reply to a step.
func (in *instance) readStep(r *object, res *StepResult) {
	r.read(in.server.textKey, &res.Observation)
	r.read(in.server.rewardKey, &res.Reward)
	r.read(in.server.doneKey, &res.Done)
}

// quote returns s as JSON. Unlike json.Marshal it does not escape < and >.
func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // a string can always be encoded
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Recall requests the result of the last step if the server has GET /detail. Only steps
// of this client change the reply to GET /detail, so a new observation in it is the
// result of the lost step.
func (in *instance) Recall(ctx context.Context) (StepResult, bool, error) {
	if err := in.enter(); err != nil {
		return StepResult{}, false, err
	}
	defer in.leave()
	if !in.server.detail || !in.known {
		return StepResult{}, false, nil
	}
	path := "/detail" + in.query()
	raw, err := in.get(ctx, OpRecall, path)
	if errors.Is(err, KindEnvironment) { // the task has ended, with an unknown result
		return StepResult{}, false, nil
	}
	if err != nil {
		return StepResult{}, false, err
	}
	res := StepResult{Action: in.tried, Sent: true}
	r := in.object(OpRecall, path, raw)
	in.readStep(r, &res)
	if r.err != nil || res.Observation == in.shown {
		return StepResult{}, false, r.err
	}
	in.shown = res.Observation
	return res, true, nil
}

// Close closes the instance on the server if the server supports it. A missing
// endpoint is no error. The value of the reply is ignored: it is false for an id that
// the server does not know.
func (in *instance) Close(ctx context.Context) error {
	if err := in.enter(); err != nil {
		if errors.Is(err, ErrClosed) {
			return nil
		}
		return err
	}
	defer in.leave()
	in.closed = true
	if !in.server.closes {
		return nil
	}
	_, err := in.post(ctx, OpClose, "/close", fmt.Sprintf(`{%q:%s}`, in.server.idKey, in.id))
	if e, ok := errors.AsType[*Error](err); ok {
		switch {
		case e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed:
			return nil
		case e.Kind == KindMalformed && e.Status == http.StatusOK && e.Words == in.server.closed && e.Words != "":
			return nil
		}
	}
	return err
}

// split is a server.parse: P-SPLIT.
func split(_ action.Grammar, reply string) (string, bool) { return action.ParseSplit(reply), true }
