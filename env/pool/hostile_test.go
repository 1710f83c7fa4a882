package pool

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/openmanus/openmanus/data/transport/transporttest"
)

// TestPoolOfAServerThatNeverReplies checks that a server counts as down if it never replies, and that the
// request for its version ends.
func TestPoolOfAServerThatNeverReplies(t *testing.T) {
	within := func(t *testing.T, f func()) {
		t.Helper()
		done := make(chan struct{})
		go func() { f(); close(done) }()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			t.Error("the call does not return")
		}
	}
	for name, what := range transporttest.Hostile {
		t.Run(name, func(t *testing.T) {
			url := transporttest.Serve(t, what)
			p, err := New(lookup("textcraft"), []string{url}, Options{ProbePause: time.Millisecond, ProbeMax: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close(context.Background())
			within(t, func() {
				if down := (*DownError)(nil); !errors.As(p.Check(t.Context()), &down) {
					t.Error("Check returned no DownError for a server that never replies")
				}
			})
			within(t, func() {
				if _, err := p.Version(t.Context()); err == nil {
					t.Error("Version returned no error")
				}
			})
		})
	}
}
