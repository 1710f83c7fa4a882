package env

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
)

// indexed is an instance on one of the servers that call their instances
// "env_idx" and show the current observation under /observation, as a bare
// string. What /reset answers is checked and not used, as in AgentGym.
type indexed struct {
	instance
	// idx is the id as JSON. Everything but gaia has integers, which the
	// instance's own id keeps too.
	idx json.RawMessage
	// asked is the path of the observation.
	asked string
}

// indexBody is the body of /close.
type indexBody struct {
	EnvIdx json.RawMessage `json:"env_idx"`
}

// indexedAction is the body of /step.
type indexedAction struct {
	Action string          `json:"action"`
	EnvIdx json.RawMessage `json:"env_idx"`
}

// toolCreate is the body of /create on the servers that want one. The id is a
// task to prepare, and AgentGym's client always says 0.
type toolCreate struct {
	ID int `json:"id"`
}

// toolReset is the body of /reset on the same servers.
type toolReset struct {
	ID     int             `json:"id"`
	EnvIdx json.RawMessage `json:"env_idx"`
}

// serverID is what the server calls the instance, a number or a text.
func (in *indexed) ServerID() string { return string(in.idx) }

// createBare posts body to /create, which answers the id alone.
func (in *indexed) createBare(ctx context.Context, body any) error {
	raw, err := in.post(ctx, OpCreate, "/create", body)
	if err != nil {
		return err
	}
	if in.id, err = in.bareID(OpCreate, "/create", raw); err != nil {
		return err
	}
	in.know(raw, string(raw))
	return nil
}

// know keeps the id as JSON and as text.
func (in *indexed) know(raw json.RawMessage, text string) {
	in.idx = raw
	in.asked = "/observation?env_idx=" + url.QueryEscape(text)
}

// observe asks for the current observation. The caller has entered.
func (in *indexed) observe(ctx context.Context) (string, error) {
	raw, err := in.get(ctx, OpObserve, in.asked)
	if err != nil {
		return "", err
	}
	return in.bareText(OpObserve, in.asked, raw)
}

// restart posts body to /reset, looks over the reply with check, and asks for
// the first observation.
func (in *indexed) restart(ctx context.Context, body any, check func(json.RawMessage) error) (Obs, error) {
	if err := in.enter(); err != nil {
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
	text, err := in.observe(ctx)
	return Obs{Text: text}, err
}

// resetText checks a /reset reply that is the first observation.
func (in *indexed) resetText(raw json.RawMessage) error {
	_, err := in.bareText(OpReset, "/reset", raw)
	return err
}

// resetPair checks a /reset reply that is the first observation and null.
func (in *indexed) resetPair(raw json.RawMessage) error {
	_, err := in.firstText(OpReset, "/reset", raw)
	return err
}

// actIndexed posts one action.
func (in *indexed) actIndexed(ctx context.Context, action string) (StepResult, error) {
	if err := in.enter(); err != nil {
		return StepResult{}, err
	}
	defer in.leave()
	action = validText(action)
	res, _, err := in.step(ctx, action, indexedAction{Action: action, EnvIdx: in.idx})
	return res, err
}

// giveBack posts to /close.
func (in *indexed) giveBack(ctx context.Context) error {
	return in.end(func() error { return in.tellClosed(ctx, indexBody{in.idx}) })
}

// isWords reports whether err is a reply with status 200 that says only words,
// bare instead of as JSON.
func isWords(err error, words string) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == KindMalformed && e.Status == 200 && e.Words == words
}
