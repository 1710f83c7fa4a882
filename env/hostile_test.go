package env

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/openmanus/openmanus/data/transport/transporttest"
)

// within fails the test if f does not return. Only the limits of the transport can end the calls in f.
func within(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { f(); close(done) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Error("the call does not return")
	}
}

// TestNoReply checks that a call ends although the server never completes its reply and the call has no time limit.
func TestNoReply(t *testing.T) {
	for name, what := range transporttest.Hostile {
		t.Run(name, func(t *testing.T) {
			url := transporttest.Serve(t, what)
			c, err := newCaller(Spec{Name: "textcraft"}, Options{BaseURL: url, Timeout: time.Hour, Attempts: 1}, server{})
			if err != nil {
				t.Fatal(err)
			}
			within(t, func() {
				if _, err := c.post(t.Context(), OpStep, "/step", `{"id":0}`); !ServerFault(err) {
					t.Errorf("step: %v", err)
				}
			})
		})
	}
}

// TestNegativeID checks that a negative id is an error: some servers would count it from the end and use another
// instance.
func TestNegativeID(t *testing.T) {
	for name, body := range map[string]string{
		"textcraft": `{"id":-1,"observation":"x","done":false,"reward":0}`, "babyai": `{"id":-1}`, "maze": `{"id":-1}`, "wordle": `{"id":-1}`,
		"sciworld": `{"id":-1}`, "alfworld": `{"id":-1}`, "webarena": `{"env_idx":-1}`, "weather": "-1", "sqlgym": "-1", "webshop": "-1", "searchqa": "-1",
	} {
		s := newScript(t, map[string][]reply{"POST /create": ok(body), "POST /maze/create": ok(body), "POST /wordle/create": ok(body)})
		_, err := spec(name).New(t.Context(), Options{BaseURL: s.URL})
		if !errors.Is(err, KindMalformed) || !strings.Contains(err.Error(), "an id is 0 or greater") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
