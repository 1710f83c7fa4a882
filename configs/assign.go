package configs

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/openmanus/openmanus/data/registry"
)

// instance converts the name of a key to a path. It inserts index i into a key of
// [[env]] or [reward.components.NAME]: env.tasks becomes env.0.tasks.
func instance(name string, i int) string {
	for _, many := range []string{"env.", components} {
		if rest, ok := strings.CutPrefix(name, many); ok {
			return many + strconv.Itoa(i) + "." + rest
		}
	}
	return name
}

// generic returns the name of a path in the table of keys: the path without the
// index of an [[env]] table or the name of a component.
func generic(path string) string {
	if rest, ok := strings.CutPrefix(path, components); ok {
		if _, after, ok := strings.Cut(rest, "."); ok {
			return components + after
		}
		return strings.TrimSuffix(components, ".")
	}
	if rest, ok := strings.CutPrefix(path, "env."); ok {
		if i, after, ok := strings.Cut(rest, "."); ok {
			if _, err := strconv.Atoi(i); err == nil {
				return "env." + after
			}
		}
	}
	return path
}

// field returns the value at a path such as "env.0.tasks". It panics if the
// path is not a Ready key. To set the value of a parameter, use store.
func (c *Config) field(path string) reflect.Value {
	v, params, key := c.find(path)
	if params == nil {
		return v
	}
	if x := params[key]; x != nil {
		return reflect.ValueOf(x)
	}
	return reflect.ValueOf(c.Schema.byName[generic(path)].def)
}

// store calls change to set the value of the key or parameter at a path.
func (c *Config) store(path string, change func(dst reflect.Value)) {
	v, params, key := c.find(path)
	if params == nil {
		change(v)
		return
	}
	old := c.field(path)
	dst := reflect.New(old.Type()).Elem()
	dst.Set(old)
	change(dst)
	params[key] = dst.Interface()
}

// find returns the field of a path, or for a parameter its key and the map that
// holds its value.
func (c *Config) find(path string) (v reflect.Value, params registry.Values, key string) {
	v = reflect.ValueOf(c).Elem()
	for name := range strings.SplitSeq(path, ".") {
		if v.Kind() == reflect.Slice {
			i, err := strconv.Atoi(name)
			if err != nil {
				i = indexOf(v, name)
			}
			if i < 0 {
				panic("configs: no index in " + path)
			}
			v = v.Index(i)
			continue
		}
		f, ok := fieldByTag(v, name)
		if !ok {
			if !c.Schema.byName[generic(path)].param {
				panic("configs: no field for " + path)
			}
			return v, v.FieldByName("Params").Interface().(registry.Values), name
		}
		v = f
	}
	return v, nil, ""
}

// indexOf returns the index of the named component, or -1.
func indexOf(list reflect.Value, name string) int {
	for i := range list.Len() {
		if f := list.Index(i).FieldByName("Name"); f.IsValid() && f.String() == name {
			return i
		}
	}
	return -1
}

func fieldByTag(v reflect.Value, name string) (reflect.Value, bool) {
	t := v.Type()
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("toml") == name {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// assign stores a decoded TOML value in dst. It returns "" or the type error.
func assign(dst reflect.Value, v any) string {
	wrong := fmt.Sprintf("%s has the wrong type; expected: %s", describe(v), typeName(dst.Type()))
	switch dst.Kind() {
	case reflect.String, reflect.Bool:
		if reflect.TypeOf(v) != dst.Type() {
			return wrong
		}
		dst.Set(reflect.ValueOf(v))
	case reflect.Int:
		n, ok := v.(int64)
		if !ok {
			return wrong
		}
		if n > math.MaxInt32 || n < math.MinInt32 {
			return fmt.Sprintf("%d is too large; allowed: up to %d", n, math.MaxInt32)
		}
		dst.SetInt(n)
	case reflect.Uint64:
		n, ok := v.(int64)
		if !ok {
			return wrong
		}
		if n < 0 {
			return fmt.Sprintf("%d is not allowed; allowed: at least 0", n)
		}
		dst.SetUint(uint64(n))
	case reflect.Float64:
		f, ok := asFloat(v)
		if !ok {
			return wrong
		}
		dst.SetFloat(f)
	case reflect.Array:
		list, ok := v.([]any)
		if !ok || len(list) != dst.Len() {
			return fmt.Sprintf("%s is not a list of %d numbers", describe(v), dst.Len())
		}
		for i, x := range list {
			if msg := assign(dst.Index(i), x); msg != "" {
				return msg
			}
		}
	case reflect.Slice: // a list of strings; one string becomes a list with one entry
		var list []string
		switch v := v.(type) {
		case string:
			if v != "" {
				list = []string{v}
			}
		case []any:
			for _, x := range v {
				var s string
				if msg := assign(reflect.ValueOf(&s).Elem(), x); msg != "" {
					return msg
				}
				list = append(list, s)
			}
		default:
			return wrong
		}
		dst.Set(reflect.ValueOf(list))
	case reflect.Map: // a table of strings
		table, ok := v.(map[string]any)
		if !ok {
			return wrong
		}
		var out map[string]string // stays nil if there are no entries, like the default
		for _, key := range slices.Sorted(maps.Keys(table)) {
			s, ok := table[key].(string)
			if !ok {
				return fmt.Sprintf("%s = %s: expected a string", key, describe(table[key]))
			}
			if out == nil {
				out = map[string]string{}
			}
			out[key] = s
		}
		dst.Set(reflect.ValueOf(out))
	default:
		panic("configs: cannot assign a value of type " + dst.Type().String())
	}
	return ""
}

func asFloat(v any) (float64, bool) {
	switch n := v.(type) {
	case float64:
		return n, true
	case int64:
		return float64(n), true
	}
	return 0, false
}

// describe shows a decoded TOML value in a message.
func describe(v any) string {
	switch v := v.(type) {
	case string:
		if len(v) > 60 {
			v = v[:60] + "…"
		}
		return strconv.Quote(v)
	case []any:
		return "a list"
	case map[string]any:
		return "a table"
	case []map[string]any:
		return "a list of tables"
	case float64:
		return formatFloat(v)
	}
	return fmt.Sprint(v)
}

// sameValue reports whether a decoded TOML value equals the fixed value of a key.
func sameValue(v, only any) bool {
	switch only := only.(type) {
	case float64:
		f, ok := asFloat(v)
		return ok && f == only
	case int:
		n, ok := v.(int64)
		return ok && n == int64(only)
	}
	return v == only
}
