package env

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// A reply with status 200 is an object, an array, or a bare number or string,
// depending on the server (protocol 1.2). A reply of another shape is an error
// of KindMalformed.

// malformed returns the error for a reply of the wrong shape.
func (c *caller) malformed(op, path string, raw json.RawMessage, err error) *Error {
	e := &Error{
		Kind: KindMalformed, Op: op, URL: c.base + path, Status: http.StatusOK, Words: shorten(string(raw)), Sent: true, Err: err,
	}
	c.tell(Attempt{Op: op, Failure: e})
	return e
}

// object is a reply with keys. Reads after the first failure, which is in err,
// do nothing.
type object struct {
	caller   *caller
	op, path string
	raw      json.RawMessage
	fields   map[string]json.RawMessage
	err      error
}

func (c *caller) object(op, path string, raw json.RawMessage) *object {
	o := &object{caller: c, op: op, path: path, raw: raw}
	if err := json.Unmarshal(raw, &o.fields); err != nil {
		o.fail(err)
	} else if o.fields == nil {
		o.fail(errors.New("want an object"))
	}
	return o
}

func (o *object) fail(err error) { o.err = o.caller.malformed(o.op, o.path, o.raw, err) }

// read decodes a key that must be present and not null.
func (o *object) read(key string, into any) {
	if o.err != nil {
		return
	}
	v, ok := o.fields[key]
	if !ok || string(v) == "null" {
		o.fail(fmt.Errorf("key %q is missing", key))
		return
	}
	if err := json.Unmarshal(v, into); err != nil {
		o.fail(fmt.Errorf("key %q: %w", key, err))
	}
}

// readStep reads the keys of a step.
func (o *object) readStep(keys stepKeys, res *StepResult) {
	o.read(keys.observation, &res.Observation)
	o.read(keys.reward, &res.Reward)
	o.read(keys.done, &res.Done)
}

// errID rejects a negative id, which a server in Python would count from the
// end of its list: it would be another instance.
var errID = errors.New("an id is 0 or greater")

// readID reads the id of an instance.
func (o *object) readID(key string, into *int64) {
	if o.read(key, into); o.err == nil && *into < 0 {
		o.fail(errID)
	}
}

// bareText returns a reply that is a JSON string.
func (c *caller) bareText(op, path string, raw json.RawMessage) (string, error) {
	var text *string
	err := json.Unmarshal(raw, &text)
	if err == nil && text == nil {
		err = errors.New("want a string")
	}
	if err != nil {
		return "", c.malformed(op, path, raw, err)
	}
	return *text, nil
}

// number checks a reply that is the id of an instance.
func (c *caller) number(op, path string, raw json.RawMessage) error {
	var n *int64
	err := json.Unmarshal(raw, &n)
	switch {
	case err == nil && n == nil:
		err = errors.New("want an integer")
	case err == nil && *n < 0:
		err = errID
	}
	if err != nil {
		return c.malformed(op, path, raw, err)
	}
	return nil
}

// firstText checks a reply that is an array whose first element is a string.
func (c *caller) firstText(op, path string, raw json.RawMessage) error {
	var list []json.RawMessage
	err := json.Unmarshal(raw, &list)
	if err == nil {
		var text *string
		if len(list) == 0 || json.Unmarshal(list[0], &text) != nil || text == nil {
			err = errors.New("want an array that begins with a string")
		}
	}
	if err != nil {
		return c.malformed(op, path, raw, err)
	}
	return nil
}
