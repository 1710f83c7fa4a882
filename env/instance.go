package env

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
)

// instance is the part that all clients share: the server's id of the instance,
// and a guard that turns two calls at once into ErrBusy.
type instance struct {
	*caller
	id     int64
	busy   atomic.Bool
	closed bool // guarded by busy
}

// newInstance creates an instance of the environment called name. It posts body
// to /create, whose reply is an object with the id.
func newInstance(ctx context.Context, name string, o Options, s server, body any) (*instance, error) {
	c, err := newCaller(name, o, s)
	if err != nil {
		return nil, err
	}
	in := &instance{caller: c}
	raw, err := in.post(ctx, OpCreate, "/create", body)
	if err != nil {
		return nil, err
	}
	r := in.object(OpCreate, "/create", raw)
	r.readID("id", &in.id)
	return in, r.err
}

// ServerID returns the server's name of the instance.
func (in *instance) ServerID() string { return strconv.FormatInt(in.id, 10) }

// enter claims the instance for one call; the caller defers leave.
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

// enterReset is enter for a reset to a task, whose index it checks first.
func (in *instance) enterReset(index int) error {
	if err := in.spec.CheckIndex(index); err != nil {
		return err
	}
	return in.enter()
}

// reset posts body to /reset. The reply is an object with the observation.
func (in *instance) reset(ctx context.Context, index int, body any) (Obs, error) {
	if err := in.enterReset(index); err != nil {
		return Obs{}, err
	}
	defer in.leave()
	raw, err := in.post(ctx, OpReset, "/reset", body)
	if err != nil {
		return Obs{}, err
	}
	var text string
	r := in.object(OpReset, "/reset", raw)
	r.read("observation", &text)
	return Obs{Text: text}, r.err
}

// actionBody is the body of /step, with the fields in upstream's order.
type actionBody struct {
	Action string `json:"action"`
	ID     int64  `json:"id"`
}

// act posts one action to a server whose instances are called "id".
func (in *instance) act(ctx context.Context, action string) (StepResult, error) {
	if err := in.enter(); err != nil {
		return StepResult{}, err
	}
	defer in.leave()
	res, _, err := in.send(ctx, action)
	return res, err
}

// send is act for a caller that has already entered. It also returns the reply.
func (in *instance) send(ctx context.Context, action string) (StepResult, *object, error) {
	action = validText(action)
	return in.step(ctx, action, actionBody{Action: action, ID: in.id})
}

// validText replaces invalid UTF-8, on which some servers fail.
func validText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// stepKeys names the keys of a /step reply that become a StepResult.
type stepKeys struct{ observation, reward, done string }

var usualKeys = stepKeys{observation: "observation", reward: "reward", done: "done"}

// step posts body to /step and reads server.keys, usualKeys by default, from
// the reply, which it also returns.
func (in *instance) step(ctx context.Context, action string, body any) (StepResult, *object, error) {
	res := StepResult{Action: action, Sent: true}
	raw, err := in.post(ctx, OpStep, "/step", body)
	if err != nil {
		e, ok := err.(*Error)
		res.Sent = ok && e.Sent
		return res, nil, err
	}
	keys := in.server.keys
	if keys == (stepKeys{}) {
		keys = usualKeys
	}
	r := in.object(OpStep, "/step", raw)
	full := res
	r.readStep(keys, &full)
	if r.err != nil {
		return res, r, r.err
	}
	return full, r, nil
}

// Close gives the instance back if the server can take it.
func (in *instance) Close(ctx context.Context) error {
	return in.end(ctx, struct {
		ID int64 `json:"id"`
	}{in.id})
}

// end marks the instance closed and, if server.closes is set, posts body to
// /close. A server without the endpoint is no error. The reply is ignored: it is
// false for an id that the server no longer knows.
func (in *instance) end(ctx context.Context, body any) error {
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
	_, err := in.post(ctx, OpClose, "/close", body)
	var e *Error
	if errors.As(err, &e) && (e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed) {
		return nil
	}
	return err
}
