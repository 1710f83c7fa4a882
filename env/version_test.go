package env

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

func TestVersion(t *testing.T) {
	serve := func(replies ...string) string {
		var n atomic.Int32
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			reply := replies[min(int(n.Add(1)), len(replies))-1]
			switch {
			case r.URL.Path != "/openapi.json" || reply == "404":
				http.NotFound(w, r)
			case reply == "500":
				http.Error(w, "busy", http.StatusInternalServerError)
			default:
				_, _ = io.WriteString(w, reply)
			}
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	info := `{"openapi":"3.1.0","info":{"title":"FastAPI","version":"0.1.0"}}`
	for _, tt := range []struct {
		name string
		urls []string
		want string
	}{
		{"one", []string{serve(info)}, "FastAPI 0.1.0"},
		{"equal ones", []string{serve(info), serve(info)}, "FastAPI 0.1.0"},
		{"others", []string{serve(info), serve(`{"info":{"title":"Craft","version":"2"}}`)}, "Craft 2, FastAPI 0.1.0"},
		{"none", []string{serve("404")}, ""},
		{"a page", []string{serve("<html>")}, ""},
		{"after a moment", []string{serve("500", info)}, "FastAPI 0.1.0"},
		{"never", []string{serve("500")}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec, err := Lookup("textcraft")
			if err != nil {
				t.Fatal(err)
			}
			p, err := NewPool(spec, tt.urls, PoolOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close(t.Context())
			if got := p.Version(t.Context()); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	CloseIdle()
}
