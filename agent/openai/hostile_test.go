package openai

import (
	"testing"
	"time"

	"github.com/openmanus/openmanus/data/transport/transporttest"
)

// A request to an endpoint that never completes a reply ends within its timeout.
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
					t.Error("there is a reply")
				}
			case <-time.After(20 * time.Second):
				t.Error("it hangs")
			}
		})
	}
}
