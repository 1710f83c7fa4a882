package external

import (
	"testing"
	"time"

	"github.com/openmanus/openmanus/data/transport/transporttest"
)

// TestNoReply checks that a call to a server that never completes a reply ends.
func TestNoReply(t *testing.T) {
	for name, what := range transporttest.Hostile {
		t.Run(name, func(t *testing.T) {
			s := newServer(transporttest.Serve(t, what), Options{MaxReply: 1000})
			done := make(chan error, 1)
			go func() {
				_, err := s.call(t.Context(), []byte("{}"))
				done <- err
			}()
			select {
			case err := <-done:
				if err == nil {
					t.Error("call returned a reply")
				}
			case <-time.After(20 * time.Second):
				t.Error("call hangs")
			}
			if err := s.close(); err != nil {
				t.Error(err)
			}
		})
	}
}
