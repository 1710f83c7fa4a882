package check_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/env/check"
)

// own serves textcraft, which has the protocol of servers of one's own, with a change of its replies.
func own(t *testing.T, change func(path, reply string) string) string {
	t.Helper()
	h, err := builtin.New("textcraft", builtin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		body, _ := io.ReadAll(rec.Body)
		body = []byte(change(r.URL.Path, string(body)))
		for name, v := range rec.Header() {
			if name != "Content-Length" {
				w.Header()[name] = v
			}
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(rec.Code)
		_, _ = io.Copy(w, bytes.NewReader(body))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestOwnServer checks a server of which only the protocol is known.
func TestOwnServer(t *testing.T) {
	goal := "reward at the goal"
	report := run(t, check.Options{URL: own(t, func(_, reply string) string { return reply }), Env: env.KindAgentGym, Actions: []string{"inventory", "jump"}})
	none(t, report, check.Fail)
	none(t, report, check.Warn)
	none(t, report, check.Skip, goal)

	// An observation that does not show the task is no fault, and close may answer any JSON value.
	secret := run(t, check.Options{URL: own(t, func(path, reply string) string {
		switch path {
		case "/reset":
			if strings.Contains(reply, `"observation"`) {
				return `{"observation": "Guess my number."}`
			}
		case "/step":
			if strings.Contains(reply, `"observation"`) {
				return `{"observation": "higher", "reward": 0.0, "done": false}`
			}
		case "/close":
			if !strings.Contains(reply, `"error"`) {
				return `{"closed": true}`
			}
		}
		return reply
	}), Env: env.KindAgentGym})
	none(t, secret, check.Fail)
	if r := find(t, secret, "task index"); r.Status != check.Warn {
		t.Errorf("equal replies of two tasks: %+v", r)
	}

	broken := run(t, check.Options{URL: own(t, func(path, reply string) string {
		if path == "/reset" {
			return strings.ReplaceAll(reply, `"observation"`, `"text"`)
		}
		return reply
	}), Env: env.KindAgentGym})
	if broken.Count(check.Fail) == 0 {
		t.Error("a reset without an observation passes")
	}
	if _, err := check.Run(t.Context(), check.Options{URL: "http://127.0.0.1:1", Env: "maze", Actions: []string{"fly"}}); err == nil {
		t.Error("the actions of maze can be replaced")
	}
}
