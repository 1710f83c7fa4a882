package openai

import (
	"testing"
	"time"

	"github.com/openmanus/openmanus/data/transport/transporttest"
)

// TestNoReply checks that Chat fails for an endpoint that never completes a reply.
// The client's HTTP transport must end the request long before the timeout of one hour.
func TestNoReply(t *testing.T) {
	for name, what := range transporttest.Hostile {
		t.Run(name, func(t *testing.T) {
			c, _ := client(t, Options{BaseURL: transporttest.Serve(t, what), Timeout: time.Hour, Attempts: 1})
			done := make(chan error, 1)
			go func() {
				_, err := c.Chat(t.Context(), hello)
				done <- err
			}()
			select {
			case err := <-done:
				if err == nil {
					t.Error("no error")
				}
			case <-time.After(20 * time.Second):
				t.Error("Chat did not return")
			}
		})
	}
}
