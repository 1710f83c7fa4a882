package env

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
)

// instance is the part all clients share: the server-side id, and a guard
// that turns two calls at once into an error instead of a corrupted episode.
type instance struct {
	*caller
	id     int64
	busy   atomic.Bool
	closed bool // guarded by busy
}

// serverID is what the server calls the instance.
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

// stepKeys are the keys of a /step reply that a StepResult is made of.
type stepKeys struct{ observation, reward, done string }

// usualKeys are those of most servers.
var usualKeys = stepKeys{observation: "observation", reward: "reward", done: "done"}

// step posts body and reads the three keys of the reply, which it returns too.
// A server that hands out its reward under another name says so.
func (in *instance) step(ctx context.Context, action string, body any) (StepResult, *object, error) {
	res := StepResult{Action: action, Sent: true}
	raw, err := in.post(ctx, OpStep, "/step", body)
	if err != nil {
		res.Sent = sentBefore(err)
		return res, nil, err
	}
	keys := in.server.keys
	if keys == (stepKeys{}) {
		keys = usualKeys
	}
	r := in.object(OpStep, "/step", raw)
	full := res
	r.read(keys.observation, &full.Observation)
	r.read(keys.reward, &full.Reward)
	r.read(keys.done, &full.Done)
	if r.err != nil {
		return res, r, r.err
	}
	return full, r, nil
}

func sentBefore(err error) bool {
	e, ok := err.(*Error)
	return ok && e.Sent
}

// reset posts body, whose index the caller has checked, and gives the reply.
func (in *instance) reset(ctx context.Context, body any) (Obs, error) {
	if err := in.enter(); err != nil {
		return Obs{}, err
	}
	defer in.leave()
	raw, err := in.post(ctx, OpReset, "/reset", body)
	if err != nil {
		return Obs{}, err
	}
	text, err := in.observation("/reset", raw)
	return Obs{Text: text}, err
}

// act posts one action to a server that knows its instances as "id".
func (in *instance) act(ctx context.Context, action string) (StepResult, error) {
	if err := in.enter(); err != nil {
		return StepResult{}, err
	}
	defer in.leave()
	res, _, err := in.send(ctx, action)
	return res, err
}

// send is act for a caller that has entered already.
func (in *instance) send(ctx context.Context, action string) (StepResult, *object, error) {
	action = validText(action)
	return in.step(ctx, action, actionBody{Action: action, ID: in.id})
}

// validText is what JSON would make of a text; some servers fail on less.
func validText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// end marks the instance closed, then runs giveBack if it was open.
func (in *instance) end(giveBack func() error) error {
	if err := in.enter(); err != nil {
		if errors.Is(err, ErrClosed) {
			return nil
		}
		return err
	}
	defer in.leave()
	in.closed = true
	return giveBack()
}

// forget ends the client of a server that takes no instance back.
func (in *instance) forget() error {
	return in.end(func() error { return nil })
}

// create posts to /create and keeps the id of the reply, an object.
func (in *instance) create(ctx context.Context, body any) error {
	raw, err := in.post(ctx, OpCreate, "/create", body)
	if err != nil {
		return err
	}
	return in.created("/create", raw)
}

// actionBody is the body of /step; upstream's client puts the id last.
type actionBody struct {
	Action string `json:"action"`
	ID     int64  `json:"id"`
}

// idBody is the body of /close.
type idBody struct {
	ID int64 `json:"id"`
}

// created reads the id out of a /create reply that is an object.
func (in *instance) created(path string, raw json.RawMessage) error {
	r := in.object(OpCreate, path, raw)
	r.readID("id", &in.id)
	return r.err
}

// observation reads the one key of a reset reply all servers here have.
func (in *instance) observation(path string, raw json.RawMessage) (text string, err error) {
	r := in.object(OpReset, path, raw)
	r.read("observation", &text)
	return text, r.err
}

// tellClosed posts body to /close. A server that has no such endpoint leaves
// nothing to do, and what it answers otherwise (false, for an id it no longer
// knows) changes nothing.
func (in *instance) tellClosed(ctx context.Context, body any) error {
	_, err := in.post(ctx, OpClose, "/close", body)
	var e *Error
	if errors.As(err, &e) && (e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed) {
		return nil
	}
	return err
}
