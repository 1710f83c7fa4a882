package env

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// The shapes a reply with status 200 comes in: an object, an array, a bare
// number or string (protocol 1.2). What is not the shape that this server has
// is an error of KindMalformed.

// malformed is the error for a reply that is not what it must be.
func (c *caller) malformed(op, path string, raw json.RawMessage, err error) *Error {
	e := &Error{
		Kind: KindMalformed, Op: op, URL: c.base + path, Status: http.StatusOK, Words: shorten(string(raw)), Sent: true, Err: err,
	}
	c.tell(Attempt{Op: op, Failure: e})
	return e
}

// object is a reply with keys. Its reads stop at the first one that fails and
// leave the failure in err.
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
		o.err = c.malformed(op, path, raw, err)
	} else if o.fields == nil {
		o.err = c.malformed(op, path, raw, errors.New("want an object"))
	}
	return o
}

// read takes a key that must be there, and not be null.
func (o *object) read(key string, into any) {
	if o.err != nil {
		return
	}
	v, ok := o.fields[key]
	if !ok || string(v) == "null" {
		o.err = o.caller.malformed(o.op, o.path, o.raw, fmt.Errorf("key %q is missing", key))
		return
	}
	if err := json.Unmarshal(v, into); err != nil {
		o.err = o.caller.malformed(o.op, o.path, o.raw, fmt.Errorf("key %q: %w", key, err))
	}
}

// bareText reads a reply that is a JSON string.
func (c *caller) bareText(op, path string, raw json.RawMessage) (string, error) {
	var text *string
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", c.malformed(op, path, raw, err)
	}
	if text == nil {
		return "", c.malformed(op, path, raw, errors.New("want a string"))
	}
	return *text, nil
}

// errID is what is wrong with an id below 0. Servers in Python would take it as
// one that counts from the end: another instance.
var errID = errors.New("an id is 0 or greater")

// readID is read for the id of an instance.
func (o *object) readID(key string, into *int64) {
	if o.read(key, into); o.err == nil && *into < 0 {
		o.err = o.caller.malformed(o.op, o.path, o.raw, errID)
	}
}

// bareID reads a reply that is the id of an instance.
func (c *caller) bareID(op, path string, raw json.RawMessage) (int64, error) {
	var n *int64
	if err := json.Unmarshal(raw, &n); err != nil {
		return 0, c.malformed(op, path, raw, err)
	}
	if n == nil {
		return 0, c.malformed(op, path, raw, errors.New("want an integer"))
	}
	if *n < 0 {
		return 0, c.malformed(op, path, raw, errID)
	}
	return *n, nil
}

// firstText reads a reply that is an array which begins with a string.
func (c *caller) firstText(op, path string, raw json.RawMessage) (string, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return "", c.malformed(op, path, raw, err)
	}
	if len(list) == 0 {
		return "", c.malformed(op, path, raw, errors.New("want an array that begins with a string"))
	}
	var text *string
	if err := json.Unmarshal(list[0], &text); err != nil || text == nil {
		return "", c.malformed(op, path, raw, errors.New("want an array that begins with a string"))
	}
	return *text, nil
}
