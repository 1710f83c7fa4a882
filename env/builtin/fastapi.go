package builtin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/openmanus/openmanus/internal/plainjson"
)

// This file reproduces the HTTP behaviour of a FastAPI application: exact paths, the
// bodies of 404, 405 and 422 (pydantic 2), plain text for 500, compact JSON with a
// Content-Length.

// endpoint returns the value to send as JSON. The server sends an error of type gameError
// as {"error": text}, of type invalid as status 422, and any other error as status 500.
type endpoint func(r *request) (any, error)

// routes maps a path, then a method, to its endpoint.
type routes map[string]map[string]endpoint

// maxBody bounds the bytes of a request body.
const maxBody = 1 << 20

func (rs routes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	methods, ok := rs[r.URL.Path]
	if !ok {
		if trimmed := strings.TrimSuffix(r.URL.Path, "/"); rs[trimmed] != nil {
			to := *r.URL
			to.Path = trimmed
			w.Header().Set("Location", "http://"+r.Host+to.RequestURI())
			w.Header().Set("Content-Length", "0")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return
		}
		writeJSON(w, http.StatusNotFound, map[string]string{"detail": "Not Found"})
		return
	}
	serve, ok := methods[r.Method]
	if !ok {
		for m := range methods {
			w.Header().Add("Allow", m)
		}
		writeJSON(w, http.StatusMethodNotAllowed, map[string]string{"detail": "Method Not Allowed"})
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		writeJSON(w, http.StatusRequestEntityTooLarge, map[string]string{"detail": "Request body too large"})
		return
	}
	reply, err := serve(&request{http: r, text: body})
	switch err := err.(type) {
	case nil:
		writeJSON(w, http.StatusOK, reply)
	case gameError:
		writeJSON(w, http.StatusOK, map[string]string{"error": string(err)})
	case invalid:
		writeJSON(w, http.StatusUnprocessableEntity, map[string]any{"detail": []flaw(err)})
	default:
		writeText(w, http.StatusInternalServerError, "Internal Server Error")
	}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	text, err := plainjson.Marshal(v)
	if err != nil {
		writeText(w, http.StatusInternalServerError, "Internal Server Error")
		return
	}
	write(w, status, "application/json", text)
}

func writeText(w http.ResponseWriter, status int, text string) {
	write(w, status, "text/plain; charset=utf-8", []byte(text))
}

func write(w http.ResponseWriter, status int, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body) // Write fails if the client disconnected
}

// flaw is one entry of a 422 reply.
type flaw struct {
	Type  string            `json:"type"`
	Loc   []any             `json:"loc"`
	Msg   string            `json:"msg"`
	Input any               `json:"input"`
	Ctx   map[string]string `json:"ctx,omitempty"`
}

// invalid is the error of a request that does not match its endpoint. It becomes status 422.
type invalid []flaw

func (v invalid) Error() string { return fmt.Sprintf("%d faults in the request", len(v)) }

// request reads the fields that an endpoint declares and collects their faults.
type request struct {
	http   *http.Request
	text   []byte
	object map[string]json.RawMessage
	faults invalid
}

// body parses the request body, which must be a JSON object. It must succeed before
// integer or str is called.
func (r *request) body() error {
	kind := r.http.Header.Get("Content-Type")
	media, _, err := mime.ParseMediaType(kind)
	if len(r.text) == 0 {
		return invalid{{Type: "missing", Loc: []any{"body"}, Msg: "Field required"}}
	}
	if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") {
		return invalid{notObject(string(r.text))}
	}
	if err := json.Unmarshal(r.text, new(any)); err != nil {
		at := int64(0)
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			at = syntax.Offset
		}
		return invalid{{
			Type: "json_invalid", Loc: []any{"body", at}, Msg: "JSON decode error",
			Input: map[string]any{}, Ctx: map[string]string{"error": err.Error()},
		}}
	}
	if json.Unmarshal(r.text, &r.object) != nil || r.object == nil {
		return invalid{notObject(json.RawMessage(r.text))}
	}
	return nil
}

func notObject(input any) flaw {
	return flaw{
		Type: "model_attributes_type", Loc: []any{"body"},
		Msg: "Input should be a valid dictionary or object to extract fields from", Input: input,
	}
}

// err returns the faults found so far, or nil.
func (r *request) err() error {
	if len(r.faults) == 0 {
		return nil
	}
	return r.faults
}

// integer reads an integer field as pydantic 2 does: it accepts numbers without a
// fraction, strings of digits, and booleans. For an optional field, integer returns nil
// if the value is null and 0 if the field is absent.
func (r *request) integer(key string, optional bool) *int64 {
	var n int64
	raw, ok := r.field(key, optional)
	if !ok {
		return &n
	}
	var v any
	_ = json.Unmarshal(raw, &v) // no error: the method body has parsed this JSON
	bad := func(kind, msg string) *int64 {
		r.fault(kind, key, msg, raw)
		return &n
	}
	switch v := v.(type) {
	case nil:
		if optional {
			return nil
		}
		return bad("int_type", "Input should be a valid integer")
	case bool:
		if v {
			n = 1
		}
	case float64:
		if v != math.Trunc(v) {
			return bad("int_from_float", "Input should be a valid integer, got a number with a fractional part")
		}
		if math.Abs(v) > 1<<53 {
			return bad("int_parsing_size", "Unable to parse input string as an integer, exceeded maximum size")
		}
		n = int64(v)
	case string:
		i, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		if err != nil {
			return bad("int_parsing", "Input should be a valid integer, unable to parse string as an integer")
		}
		n = i
	default:
		return bad("int_type", "Input should be a valid integer")
	}
	return &n
}

// fault records an invalid field of the body.
func (r *request) fault(kind, key, msg string, input []byte) {
	r.faults = append(r.faults, flaw{Type: kind, Loc: []any{"body", key}, Msg: msg, Input: json.RawMessage(input)})
}

// field returns a field of the body. A field that is absent and not optional is a
// fault.
func (r *request) field(key string, optional bool) (raw json.RawMessage, ok bool) {
	raw, ok = r.object[key]
	if !ok && !optional {
		r.fault("missing", key, "Field required", r.text)
	}
	return raw, ok
}

// str reads a string field. An optional field may be absent or null.
func (r *request) str(key string, optional bool) string {
	raw, ok := r.field(key, optional)
	if !ok || optional && string(raw) == "null" {
		return ""
	}
	var s *string
	if json.Unmarshal(raw, &s) != nil || s == nil {
		r.fault("string_type", key, "Input should be a valid string", raw)
		return ""
	}
	return *s
}

// queryID reads the parameter id of a GET request.
func (r *request) queryID() (int64, error) {
	q := r.http.URL.Query()
	if !q.Has("id") {
		return 0, invalid{{Type: "missing", Loc: []any{"query", "id"}, Msg: "Field required"}}
	}
	id, err := strconv.ParseInt(strings.TrimSpace(q.Get("id")), 10, 64)
	if err != nil {
		return 0, invalid{{
			Type: "int_parsing", Loc: []any{"query", "id"}, Input: q.Get("id"),
			Msg: "Input should be a valid integer, unable to parse string as an integer",
		}}
	}
	return id, nil
}
