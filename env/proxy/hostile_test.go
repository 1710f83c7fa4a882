package proxy_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/openmanus/openmanus/data/transport/transporttest"
	"github.com/openmanus/openmanus/env/proxy"
)

// TestNoReply checks that the proxy replies with 502 for a server that sends no complete reply.
func TestNoReply(t *testing.T) {
	for name, reply := range transporttest.Hostile {
		t.Run(name, func(t *testing.T) {
			s, err := proxy.Serve(t.Context(), "127.0.0.1:0", proxy.Options{Upstream: transporttest.Serve(t, reply)})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close(context.Background())
			client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
			resp, err := client.Get(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusBadGateway {
				t.Errorf("status %d", resp.StatusCode)
			}
		})
	}
}
