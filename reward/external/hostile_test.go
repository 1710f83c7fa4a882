package external

import (
	"testing"
	"time"

	"github.com/openmanus/openmanus/data/transport/transporttest"
)

// A server that never comes to a reply ends a call, whatever its time.
func TestNoReply(t *testing.T) {
	for name, what := range transporttest.Hostile {
		t.Run(name, func(t *testing.T) {
			s := newServer(transporttest.Serve(t, what), Options{MaxReply: 1000})
			done := make(chan error, 1)
			go func() {
				_, err := s.ask(t.Context(), 0, []byte("{}"))
				done <- err
			}()
			select {
			case err := <-done:
				if err == nil {
					t.Error("there is a reply")
				}
			case <-time.After(20 * time.Second):
				t.Error("it hangs")
			}
			if err := s.close(); err != nil {
				t.Error(err)
			}
		})
	}
}
