package chat

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"github.com/openmanus/openmanus/data"
)

// dict is a mapping that keeps the order of insertion, as Python's does. The
// zero value is empty. A template can change only the dict of a namespace.
type dict struct {
	entries []entry
	index   map[any]int
}

type entry struct{ key, value any }

// hashKey maps keys that are equal in Python (1, 1.0, True) to one Go key.
// ok is false for values that cannot be a key.
func hashKey(k any) (key any, ok bool) {
	switch k := unwrap(k).(type) {
	case nil, string:
		return k, true
	}
	f, isInt, i, ok := number(k)
	if !isInt {
		if i = int64(f); float64(i) != f {
			return f, ok
		}
	}
	return i, ok
}

func (d *dict) len() int { return len(d.entries) }

func (d *dict) get(key any) (any, bool) {
	if k, ok := hashKey(key); ok {
		if i, ok := d.index[k]; ok {
			return d.entries[i].value, true
		}
	}
	return nil, false
}

// set adds or replaces an entry. It returns false if hashKey rejects the key.
func (d *dict) set(key, value any) bool {
	k, ok := hashKey(key)
	if !ok {
		return false
	}
	if i, ok := d.index[k]; ok {
		d.entries[i].value = value
		return true
	}
	if d.index == nil {
		d.index = map[any]int{}
	}
	d.index[k] = len(d.entries)
	d.entries = append(d.entries, entry{key, value})
	return true
}

// list returns the list of f(e) for every entry e.
func (d *dict) list(f func(entry) any) *list {
	out := listOf(make([]any, len(d.entries))...)
	for i, e := range d.entries {
		out.items[i] = f(e)
	}
	return out
}

func itemOf(e entry) any { return tupleOf(e.key, e.value) }

var dictMethods = map[string]function{
	"items":  entriesMethod(itemOf),
	"keys":   entriesMethod(func(e entry) any { return e.key }),
	"values": entriesMethod(func(e entry) any { return e.value }),
	"get": takes("key! default", func(_ *context, v any, p []any) any {
		switch x, ok := v.(*dict).get(p[0]); {
		case ok:
			return x
		case absent(p[1]):
			return nil
		}
		return p[1]
	}),
}

func entriesMethod(f func(entry) any) function {
	return takes("", func(c *context, v any, _ []any) any {
		out := v.(*dict).list(f)
		c.spend(len(out.items))
		return out
	})
}

// convert turns a Go value of Input into a template value. It takes basic
// types, slices, maps with string keys (sorted) and json.RawMessage.
func (c *context) convert(v any) any {
	switch v := v.(type) {
	case nil, bool, int64, float64, string:
		return v
	case json.RawMessage:
		return c.decodeJSON(v)
	case []data.Message:
		l := listOf()
		for _, m := range v {
			d := new(dict)
			d.set("role", m.Role)
			d.set("content", m.Content)
			l.items = append(l.items, d)
		}
		return l
	}
	r := reflect.ValueOf(v)
	switch {
	case r.CanInt():
		return r.Int()
	case r.CanFloat():
		return r.Float()
	case r.Kind() == reflect.Slice:
		l := listOf()
		for i := range r.Len() {
			l.items = append(l.items, c.convert(r.Index(i).Interface()))
		}
		return l
	case r.Kind() == reflect.Map && r.Type().Key().Kind() == reflect.String:
		values := map[string]any{}
		for it := r.MapRange(); it.Next(); {
			values[it.Key().String()] = it.Value().Interface()
		}
		d := new(dict)
		for _, k := range slices.Sorted(maps.Keys(values)) {
			d.set(k, c.convert(values[k]))
		}
		return d
	}
	panic(c.errorf("a %T cannot be used in a template", v))
}

// decodeJSON reads a JSON value. Objects keep their order.
func (c *context) decodeJSON(raw []byte) any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v := c.jsonValue(d, 0)
	if d.More() {
		panic(c.errorf("text after the end of the JSON value"))
	}
	return v
}

func (c *context) jsonValue(d *json.Decoder, depth int) any {
	c.checkDepth(depth)
	token := func() json.Token {
		t, err := d.Token()
		if err != nil {
			panic(c.errorf("%v", err))
		}
		return t
	}
	switch t := token().(type) {
	case json.Delim:
		l, m := listOf(), new(dict)
		for d.More() {
			if t == '[' {
				l.items = append(l.items, c.jsonValue(d, depth+1))
			} else {
				key := token()
				m.set(key, c.jsonValue(d, depth+1))
			}
		}
		token()
		if t == '[' {
			return l
		}
		return m
	case json.Number:
		if i, err := strconv.ParseInt(t.String(), 10, 64); err == nil {
			return i
		}
		f, err := t.Float64()
		if err != nil {
			panic(c.errorf("%v", err))
		}
		return f
	default:
		return t // nil, bool, string
	}
}
