package env

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// stepReply is what /step of the id-keyed servers answers.
type stepReply struct {
	Observation *string  `json:"observation"`
	Reward      *float64 `json:"reward"`
	Done        *bool    `json:"done"`
}

// step posts body and reads the three keys every /step reply must have.
func (in *instance) step(ctx context.Context, action string, body any) (StepResult, error) {
	raw, err := in.post(ctx, opStep, "/step", body)
	if err != nil {
		return StepResult{Action: action, Sent: sentBefore(err)}, err
	}
	var r stepReply
	if err := in.decode(opStep, "/step", raw, &r); err != nil {
		return StepResult{Action: action, Sent: true}, err
	}
	switch {
	case r.Observation == nil:
		err = in.missing(opStep, "/step", raw, "observation")
	case r.Reward == nil:
		err = in.missing(opStep, "/step", raw, "reward")
	case r.Done == nil:
		err = in.missing(opStep, "/step", raw, "done")
	}
	if err != nil {
		return StepResult{Action: action, Sent: true}, err
	}
	return StepResult{Observation: *r.Observation, Reward: *r.Reward, Done: *r.Done, Action: action, Sent: true}, nil
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
	raw, err := in.post(ctx, opReset, "/reset", body)
	if err != nil {
		return Obs{}, err
	}
	text, err := in.observation("/reset", raw)
	return Obs{Text: text}, err
}

// act posts one action. Every server here takes the same body.
func (in *instance) act(ctx context.Context, action string) (StepResult, error) {
	if err := in.enter(); err != nil {
		return StepResult{}, err
	}
	defer in.leave()
	action = strings.ToValidUTF8(action, "\uFFFD") // what JSON would make of it
	return in.step(ctx, action, actionBody{Action: action, ID: in.id})
}

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

// create posts to /create and keeps the id of the reply, an object.
func (in *instance) create(ctx context.Context, body any) error {
	raw, err := in.post(ctx, opCreate, "/create", body)
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
	var r struct{ ID *int64 }
	if err := in.decode(opCreate, path, raw, &r); err != nil {
		return err
	}
	if r.ID == nil {
		return in.missing(opCreate, path, raw, "id")
	}
	in.id = *r.ID
	return nil
}

// observation reads the one key of a reset reply all servers here have.
func (in *instance) observation(path string, raw json.RawMessage) (string, error) {
	var r struct{ Observation *string }
	if err := in.decode(opReset, path, raw, &r); err != nil {
		return "", err
	}
	if r.Observation == nil {
		return "", in.missing(opReset, path, raw, "observation")
	}
	return *r.Observation, nil
}

// decode reads a reply into the shape it must have.
func (in *instance) decode(op, path string, raw json.RawMessage, into any) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return &Error{Kind: KindMalformed, Op: op, URL: in.base + path, Status: 200, Words: shorten(string(raw)), Sent: true, Err: err}
	}
	return nil
}

func (in *instance) missing(op, path string, raw json.RawMessage, key string) error {
	return &Error{
		Kind: KindMalformed, Op: op, URL: in.base + path, Status: 200, Words: shorten(string(raw)), Sent: true,
		Err: fmt.Errorf("key %q is missing", key),
	}
}
