package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"github.com/openmanus/openmanus/data"
)

// dict is a mapping that keeps the order of insertion, as Python's does.
// Templates cannot change one once it is made; only namespaces are written to.
type dict struct {
	entries []entry
	index   map[any]int
}

type entry struct{ key, value any }

func newDict() *dict { return &dict{index: map[any]int{}} }

// hashKey maps keys that are equal in Python (1, 1.0, True) to one Go key;
// ok is false for what cannot be a key.
func hashKey(k any) (any, bool) {
	switch k := unwrap(k).(type) {
	case nil, string:
		return k, true
	}
	f, isInt, i, ok := number(k)
	if !ok {
		return nil, false
	}
	if !isInt {
		if i = int64(f); float64(i) != f {
			return f, true
		}
	}
	return i, true
}

func (d *dict) len() int { return len(d.entries) }

func (d *dict) get(key any) (any, bool) {
	k, ok := hashKey(key)
	if !ok {
		return nil, false
	}
	i, ok := d.index[k]
	if !ok {
		return nil, false
	}
	return d.entries[i].value, true
}

func (d *dict) set(key, value any) error {
	k, ok := hashKey(key)
	if !ok {
		return fmt.Errorf("a %s cannot be a key", typeName(key))
	}
	if i, ok := d.index[k]; ok {
		d.entries[i].value = value
		return nil
	}
	d.index[k] = len(d.entries)
	d.entries = append(d.entries, entry{key, value})
	return nil
}

func (d *dict) keys() []any {
	out := make([]any, len(d.entries))
	for i, e := range d.entries {
		out[i] = e.key
	}
	return out
}

// put is set for keys that are strings.
func (d *dict) put(key string, value any) {
	_ = d.set(key, value) // a string is always a valid key
}

// JSON reads a JSON value for use in Input, with objects in their order.
func JSON(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := decodeJSON(d, 0)
	if err != nil {
		return nil, fmt.Errorf("template input: %w", err)
	}
	if d.More() {
		return nil, errors.New("template input: text after the end of the JSON value")
	}
	return v, nil
}

func decodeJSON(d *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errDeep
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			l := listOf()
			for d.More() {
				v, err := decodeJSON(d, depth+1)
				if err != nil {
					return nil, err
				}
				l.items = append(l.items, v)
			}
			_, err := d.Token()
			return l, err
		}
		m := newDict()
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := decodeJSON(d, depth+1)
			if err != nil {
				return nil, err
			}
			m.put(key.(string), v)
		}
		_, err := d.Token()
		return m, err
	case json.Number:
		if i, err := strconv.ParseInt(t.String(), 10, 64); err == nil {
			return i, nil
		}
		return t.Float64()
	}
	return t, nil // nil, bool, string
}

// convert turns Go values of Input into template values: basic types, slices,
// maps with string keys (in the order of their keys), json.RawMessage and
// what JSON returns.
func convert(v any) (any, error) {
	switch v := v.(type) {
	case nil, bool, int64, float64, string, *list, *dict:
		return v, nil
	case json.RawMessage:
		return JSON(v)
	case []data.Message:
		l := listOf()
		for _, m := range v {
			d := newDict()
			d.put("role", m.Role)
			d.put("content", m.Content)
			l.items = append(l.items, d)
		}
		return l, nil
	}
	r := reflect.ValueOf(v)
	switch {
	case r.CanInt():
		return r.Int(), nil
	case r.CanFloat():
		return r.Float(), nil
	case r.Kind() == reflect.Slice:
		l := listOf()
		for i := range r.Len() {
			x, err := convert(r.Index(i).Interface())
			if err != nil {
				return nil, err
			}
			l.items = append(l.items, x)
		}
		return l, nil
	case r.Kind() == reflect.Map && r.Type().Key().Kind() == reflect.String:
		values := map[string]any{}
		for it := r.MapRange(); it.Next(); {
			values[it.Key().String()] = it.Value().Interface()
		}
		d := newDict()
		for _, k := range slices.Sorted(maps.Keys(values)) {
			x, err := convert(values[k])
			if err != nil {
				return nil, err
			}
			d.put(k, x)
		}
		return d, nil
	}
	return nil, fmt.Errorf("template input: a %T cannot be used in a template", v)
}
