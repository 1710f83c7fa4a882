package check_test

import (
	"strings"
	"testing"
	"time"

	"github.com/openmanus/openmanus/data/transport/transporttest"
	"github.com/openmanus/openmanus/env/check"
)

// TestNoReply checks that Run reports a failure if a server never completes a reply, even if calls have no limit.
func TestNoReply(t *testing.T) {
	for name, what := range transporttest.Hostile {
		t.Run(name, func(t *testing.T) {
			url := transporttest.Serve(t, what)
			done := make(chan *check.Report, 1)
			go func() { done <- run(t, check.Options{URL: url, Env: "maze", Timeout: time.Hour}) }()
			select {
			case report := <-done:
				if r := find(t, report, "greeting"); r.Status != check.Fail || !strings.Contains(r.Came, "1") {
					t.Errorf("%+v", r)
				}
			case <-time.After(20 * time.Second):
				t.Error("the check does not return")
			}
		})
	}
}
