package env

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/openmanus/openmanus/data/transport"
)

// A reply with status 200 is an object, an array, a number or a string, depending on
// the server (protocol 1.2). A reply of another shape is an error of KindMalformed.

// malformed returns the error for a reply of the wrong shape.
func (c *caller) malformed(op, path string, raw json.RawMessage, err error) *Error {
	e := &Error{
		Kind: KindMalformed, Op: op, URL: c.base + path, Status: http.StatusOK, Words: transport.Excerpt(string(raw)), Sent: true, Err: err,
	}
	c.observe(Attempt{Op: op, Failure: e})
	return e
}

// object is a reply with keys. err is the first failure of a read. Later reads do
// nothing.
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

// readID returns the instance's id in the reply to /create. A negative id is an
// error: a server in Python would count it from the end of its list and use another
// instance.
func (c *caller) readID(raw json.RawMessage) (json.RawMessage, error) {
	id := raw
	if !c.server.indexed || c.server.keyedID {
		r := c.object(OpCreate, "/create", raw)
		if r.read(c.server.idKey, &id); r.err != nil {
			return nil, r.err
		}
	}
	var err error
	var text *string
	var number *int64
	if c.server.textID {
		err = json.Unmarshal(id, &text)
	} else {
		err = json.Unmarshal(id, &number)
	}
	switch {
	case err != nil:
	case text == nil && number == nil:
		err = errors.New("the id is null")
	case text != nil && *text == "":
		err = errors.New("the id is empty")
	case number != nil && *number < 0:
		err = errors.New("an id is 0 or greater")
	}
	if err != nil {
		return nil, c.malformed(OpCreate, "/create", raw, err)
	}
	return id, nil
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

// isText checks a reply to /reset that is the first observation.
func (in *instance) isText(raw json.RawMessage) error {
	_, err := in.bareText(OpReset, "/reset", raw)
	return err
}

// isPair checks a reply to /reset that is an array of the first observation and
// null.
func (in *instance) isPair(raw json.RawMessage) error {
	var list []json.RawMessage
	var text *string
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 || json.Unmarshal(list[0], &text) != nil || text == nil {
		return in.malformed(OpReset, "/reset", raw, errors.New("want an array that begins with a string"))
	}
	return nil
}
