package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// shape describes a set of JSON values. fault returns the first deviation of a value
// from the shape. String describes the shape in a report.
type shape interface {
	fault(at string, v any) string // "" if v has the shape
	String() string
}

// kind is a shape: all values of one JSON type.
type kind string

const (
	text     kind = "string"
	integer  kind = "integer"
	natural  kind = "integer of 0 or more"
	number   kind = "number"
	boolean  kind = "true or false"
	null     kind = "null"
	object   kind = "object"
	list     kind = "array"
	anyValue kind = "any value"
)

func (k kind) String() string { return string(k) }

func (k kind) fault(at string, v any) string {
	is := kindOf(v)
	if k == anyValue || is == k || k == number && is == integer {
		return ""
	}
	if n, ok := v.(json.Number); k == natural && ok && is == integer && !strings.HasPrefix(string(n), "-") {
		return ""
	}
	return fmt.Sprintf("%s is %s, want %s", at, describe(v), k)
}

// kindOf returns the kind of a decoded value.
func kindOf(v any) kind {
	switch v := v.(type) {
	case nil:
		return null
	case bool:
		return boolean
	case string:
		return text
	case json.Number:
		if strings.ContainsAny(string(v), ".eE") {
			return number
		}
		return integer
	case []any:
		return list
	}
	return object
}

// describe returns a shortened form of a value, with its kind.
func describe(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return string(kindOf(v))
	}
	if k := kindOf(v); k == text || k == object || k == list {
		return "the " + string(k) + " " + short(string(b), 60)
	}
	return string(b)
}

// either is a shape: the values that have at least one of the listed shapes.
type either []shape

func (e either) String() string {
	var names []string
	for _, s := range e {
		names = append(names, s.String())
	}
	return strings.Join(names, " or ")
}

func (e either) fault(at string, v any) string {
	for _, s := range e {
		if s.fault(at, v) == "" {
			return ""
		}
	}
	return fmt.Sprintf("%s is %s, want %s", at, describe(v), e)
}

// every is a shape: the arrays of any length whose elements all have one shape, every.of.
type every struct{ of shape }

func (e every) String() string { return "[" + e.of.String() + ", ...]" }

func (e every) fault(at string, v any) string {
	items, ok := v.([]any)
	if !ok {
		return list.fault(at, v)
	}
	for i, item := range items {
		if f := e.of.fault(fmt.Sprintf("%s[%d]", at, i), item); f != "" {
			return f
		}
	}
	return ""
}

// tuple is a shape: the arrays with one element for each of the listed shapes.
type tuple []shape

func (t tuple) String() string {
	var names []string
	for _, s := range t {
		names = append(names, s.String())
	}
	return "[" + strings.Join(names, ", ") + "]"
}

func (t tuple) fault(at string, v any) string {
	items, ok := v.([]any)
	if !ok || len(items) != len(t) {
		return fmt.Sprintf("%s is %s, want %s", at, describe(v), t)
	}
	for i, s := range t {
		if f := s.fault(fmt.Sprintf("%s[%d]", at, i), items[i]); f != "" {
			return f
		}
	}
	return ""
}

// keys is a shape: the objects that have at least these keys.
type keys []key

type key struct {
	name string
	is   shape
}

func (k keys) String() string {
	var parts []string
	for _, f := range k {
		parts = append(parts, fmt.Sprintf("%q: %s", f.name, f.is))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func (k keys) fault(at string, v any) string {
	o, ok := v.(map[string]any)
	if !ok {
		return fmt.Sprintf("%s is %s, want %s", at, describe(v), k)
	}
	for _, f := range k {
		item, ok := o[f.name]
		if !ok {
			return fmt.Sprintf("%s has no key %q", at, f.name)
		}
		if fault := f.is.fault(fmt.Sprintf("%q", f.name), item); fault != "" {
			return fault
		}
	}
	return ""
}

// decode reads one JSON value. Numbers keep their spelling.
func decode(b []byte) (any, error) {
	if !utf8.Valid(b) {
		return nil, fmt.Errorf("not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("data after the value")
	}
	return v, nil
}

// errorText returns the text of an error object: {"error": "..."}.
func errorText(v any) (string, bool) {
	o, ok := v.(map[string]any)
	if !ok {
		return "", false
	}
	e, ok := o["error"]
	if !ok {
		return "", false
	}
	if s, ok := e.(string); ok {
		return s, true
	}
	return describe(e), true
}

// short escapes line breaks and tabs in s and truncates it to n characters.
func short(s string, n int) string {
	s = strings.ToValidUTF8(strings.NewReplacer("\r", `\r`, "\n", `\n`, "\t", `\t`).Replace(s), "\uFFFD")
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// looksLikeHTML reports whether a body is an HTML page.
func looksLikeHTML(b []byte) bool {
	start := bytes.ToLower(bytes.TrimSpace(b[:min(len(b), 200)]))
	return slices.ContainsFunc([]string{"<!doctype", "<html", "<head", "<body"}, func(p string) bool { return bytes.HasPrefix(start, []byte(p)) })
}
