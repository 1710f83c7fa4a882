package serve

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// fields reads the fields of a request's JSON object. It keeps the first error. A null
// counts as an absent field.
type fields struct {
	raw  map[string]json.RawMessage // fields that were not read yet
	fail *Error
}

func readFields(body []byte) (*fields, *Error) {
	f := &fields{}
	if err := json.Unmarshal(body, &f.raw); err != nil {
		return nil, Invalid("", "the body is not a JSON object: %s", JSONFault(err))
	}
	if f.raw == nil {
		return nil, Invalid("", "the body is null, not a JSON object")
	}
	maps.DeleteFunc(f.raw, func(_ string, v json.RawMessage) bool { return string(v) == "null" })
	return f, nil
}

// take reads a field. given is false if it is absent.
func take[T any](f *fields, name string) (v T, given bool) {
	raw, given := f.raw[name]
	if !given {
		return v, false
	}
	delete(f.raw, name)
	if err := json.Unmarshal(raw, &v); err != nil {
		f.invalid(name, "%s has the wrong type: %s", name, JSONFault(err))
		return v, false
	}
	return v, true
}

// JSONFault describes an error of encoding/json without the names of Go types.
func JSONFault(err error) string {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return strings.TrimPrefix(err.Error(), "json: ")
	}
	article := "a"
	if strings.ContainsAny(wrong.Value[:1], "ao") { // array, object
		article = "an"
	}
	return fmt.Sprintf("%s is %s %s", cmp.Or(strings.ToLower(wrong.Field), "it"), article, wrong.Value)
}

// optional reads a field as a pointer, nil if it is absent.
func optional[T any](f *fields, name string) *T {
	v, given := take[T](f, name)
	if !given {
		return nil
	}
	return &v
}

// integer reads an integer within [least, most]; absent if the field is absent.
func (f *fields) integer(name string, absent, least, most int) int {
	v, given := take[int](f, name)
	if !given {
		return absent
	}
	if v < least || v > most {
		f.invalid(name, "%s is %d, want %d to %d", name, v, least, most)
	}
	return v
}

func (f *fields) invalid(param, format string, args ...any) {
	if f.fail == nil {
		f.fail = Invalid(param, format, args...)
	}
}

// harmless lists fields that do not change the tokens of a reply. The server accepts and
// ignores them.
var harmless = []string{
	"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "parallel_tool_calls",
}

// neutral lists fields that this server does not support, with the values that turn them
// off.
var neutral = map[string][]string{
	"presence_penalty":   {"0", "0.0"},
	"frequency_penalty":  {"0", "0.0"},
	"repetition_penalty": {"1", "1.0"},
	"min_p":              {"0", "0.0"},
	"logit_bias":         {"{}"},
	"response_format":    {`{"type":"text"}`},
	"modalities":         {`["text"]`},
	"echo":               {"false"},
	"suffix":             {`""`},
	"tools":              {"[]"},
	"functions":          {"[]"},
	"tool_choice":        {`"none"`, `"auto"`},
	"function_call":      {`"none"`, `"auto"`},
}

// end returns the first error: of a field that was read, or that this server does not support.
func (f *fields) end() *Error {
	for _, name := range slices.Sorted(maps.Keys(f.raw)) {
		values, known := neutral[name]
		switch {
		case slices.Contains(harmless, name):
		case known && slices.Contains(values, compact(f.raw[name])):
		case name == "tools" || name == "functions":
			f.invalid(name, "%s: the server does not parse tool calls; describe the tools in the prompt and parse the text of the reply", name)
		case known:
			f.invalid(name, "%s is %s; the server supports only %s", name, excerpt(f.raw[name]), strings.Join(values, " or "))
		default:
			f.invalid(name, "%s: the server does not know this field", name)
		}
	}
	return f.fail
}

// compact returns a JSON value without white space between its parts.
func compact(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	return string(b)
}

func excerpt(raw json.RawMessage) string { return fmt.Sprintf("%.60s", raw) }
