package supervise

import (
	"testing"
	"time"

	"github.com/openmanus/openmanus/data/transport/transporttest"
)

// TestNoReply checks that awaitHang returns for a server that never completes a reply.
func TestNoReply(t *testing.T) {
	for name, what := range transporttest.Hostile {
		t.Run(name, func(t *testing.T) {
			url := transporttest.Serve(t, what)
			done := make(chan struct{})
			go func() {
				awaitHang(t.Context(), url, 200*time.Millisecond)
				close(done)
			}()
			select {
			case <-done:
			case <-time.After(20 * time.Second):
				t.Error("awaitHang does not return")
			}
		})
	}
}
