package env

import (
	"context"
	"encoding/json"
	"net/url"
)

// indexed is an instance on a server that calls its instances "env_idx" and
// returns the current observation as a bare string under /observation. As in
// AgentGym's clients the reply to /reset is checked, but not used.
type indexed struct {
	*instance
	idx     json.RawMessage // the id as JSON: an integer, a UUID for gaia
	observe string          // the path of the observation
}

// newIndexed creates an instance of the environment called name by a POST of
// body to /create. readID reads the id out of the reply and calls setID.
func newIndexed(ctx context.Context, name string, o Options, s server, body any, readID func(*indexed, json.RawMessage) error) (indexed, error) {
	c, err := newCaller(name, o, s)
	if err != nil {
		return indexed{}, err
	}
	in := indexed{instance: &instance{caller: c}}
	raw, err := in.post(ctx, OpCreate, "/create", body)
	if err == nil {
		err = readID(&in, raw)
	}
	return in, err
}

// bareID reads a /create reply that is the id alone.
func (in *indexed) bareID(raw json.RawMessage) error {
	if err := in.number(OpCreate, "/create", raw); err != nil {
		return err
	}
	in.setID(raw, string(raw))
	return nil
}

// setID sets the id as JSON and as text.
func (in *indexed) setID(raw json.RawMessage, text string) {
	in.idx = raw
	in.observe = "/observation?env_idx=" + url.QueryEscape(text)
}

// ServerID returns the server's name of the instance, a number or a text.
func (in *indexed) ServerID() string { return string(in.idx) }

// toolCreate is the body of /create for servers that require one. AgentGym's
// client always sends the id 0, a task to prepare.
type toolCreate struct {
	ID int `json:"id"`
}

// toolReset is the body of /reset for the same servers.
type toolReset struct {
	ID     int             `json:"id"`
	EnvIdx json.RawMessage `json:"env_idx"`
}

// observation requests the current observation. The caller has entered.
func (in *indexed) observation(ctx context.Context) (string, error) {
	raw, err := in.get(ctx, OpObserve, in.observe)
	if err != nil {
		return "", err
	}
	return in.bareText(OpObserve, in.observe, raw)
}

// restart posts body to /reset, checks the reply, and requests the first
// observation.
func (in *indexed) restart(ctx context.Context, index int, body any, check func(json.RawMessage) error) (Obs, error) {
	if err := in.enterReset(index); err != nil {
		return Obs{}, err
	}
	defer in.leave()
	raw, err := in.post(ctx, OpReset, "/reset", body)
	if err != nil {
		return Obs{}, err
	}
	if err := check(raw); err != nil {
		return Obs{}, err
	}
	text, err := in.observation(ctx)
	return Obs{Text: text}, err
}

// isText checks a /reset reply that is the first observation.
func (in *indexed) isText(raw json.RawMessage) error {
	_, err := in.bareText(OpReset, "/reset", raw)
	return err
}

// isPair checks a /reset reply that is the first observation and null.
func (in *indexed) isPair(raw json.RawMessage) error {
	return in.firstText(OpReset, "/reset", raw)
}

// actIndexed posts one action.
func (in *indexed) actIndexed(ctx context.Context, action string) (StepResult, error) {
	if err := in.enter(); err != nil {
		return StepResult{}, err
	}
	defer in.leave()
	action = validText(action)
	res, _, err := in.step(ctx, action, struct {
		Action string          `json:"action"`
		EnvIdx json.RawMessage `json:"env_idx"`
	}{action, in.idx})
	return res, err
}

// Close gives the instance back if the server can take it.
func (in *indexed) Close(ctx context.Context) error {
	return in.end(ctx, struct {
		EnvIdx json.RawMessage `json:"env_idx"`
	}{in.idx})
}
