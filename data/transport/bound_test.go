package transport_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"

	"github.com/openmanus/openmanus/data/transport"
	"github.com/openmanus/openmanus/data/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestBound checks that requests without a time limit to hostile servers end with an error.
func TestBound(t *testing.T) {
	for name, what := range transporttest.Hostile {
		t.Run(name, func(t *testing.T) {
			client := &http.Client{Transport: transport.Bound(&http.Transport{})}
			defer client.CloseIdleConnections()
			resp, err := client.Get(transporttest.Serve(t, what))
			if err == nil {
				resp.Body.Close()
			}
			if !errors.Is(err, transport.ErrSwitch) && !errors.Is(err, transport.ErrInformational) {
				t.Error(err)
			}
		})
	}
	t.Run("a few hints", func(t *testing.T) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for range transport.MaxInformational {
				w.WriteHeader(http.StatusEarlyHints)
			}
			io.WriteString(w, "reply")
		}))
		defer server.Close()
		client := &http.Client{Transport: transport.Bound(&http.Transport{})}
		defer client.CloseIdleConnections()
		resp, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "reply" {
			t.Errorf("%q, %v", text, err)
		}
	})
}
