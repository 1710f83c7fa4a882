package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/openmanus/openmanus/data/transport/transporttest"
	"github.com/openmanus/openmanus/env/proxy"
)

// A server that never comes to a reply is a failed one.
func TestNoReply(t *testing.T) {
	for name, what := range transporttest.Hostile {
		t.Run(name, func(t *testing.T) {
			p, err := proxy.New(proxy.Options{Upstream: transporttest.Serve(t, what)})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			front := httptest.NewServer(p)
			defer front.Close()
			client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
			resp, err := client.Get(front.URL)
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
