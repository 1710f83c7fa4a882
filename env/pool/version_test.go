package pool

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/openmanus/openmanus/env"
)

func TestVersion(t *testing.T) {
	serve := func(replies ...string) string {
		var n atomic.Int32
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			reply := replies[min(int(n.Add(1)), len(replies))-1]
			switch {
			case r.URL.Path != "/openapi.json" || reply == "404":
				http.NotFound(w, r)
			case reply == "500" || reply == "403":
				status, _ := strconv.Atoi(reply)
				http.Error(w, "busy", status)
			case reply == "cut":
				w.Header().Set("Content-Length", "100")
				_, _ = io.WriteString(w, "{")
			default:
				_, _ = io.WriteString(w, reply)
			}
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	info := `{"openapi":"3.1.0","info":{"title":"FastAPI","version":"0.1.0"}}`
	tests := []struct {
		name string
		urls []string
		want string
		err  string
	}{
		{"one", []string{serve(info)}, "FastAPI 0.1.0", ""},
		{"equal ones", []string{serve(info), serve(info)}, "FastAPI 0.1.0", ""},
		{"different ones", []string{serve(info), serve(`{"info":{"title":"Craft","version":"2"}}`)}, "Craft 2, FastAPI 0.1.0", ""},
		{"none", []string{serve("404")}, "", ""},
		{"an HTML page", []string{serve("<html>")}, "", ""},
		{"at the second request", []string{serve("500", info)}, "FastAPI 0.1.0", ""},
		{"never", []string{serve("500")}, "", `server error, status 500: "busy"`},
		{"forbidden", []string{serve("403")}, "", `request refused, status 403: "busy"`},
		{"cut off", []string{serve("cut")}, "", "connection failure: unexpected EOF"},
		{"one of two", []string{serve(info), serve("500")}, "", "status 500"},
		{"no server", []string{gone.URL}, "", "connection failure"},
	}
	gone.Close() // after the other servers have started, since one of them could get its port
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec, err := env.Lookup("textcraft")
			if err != nil {
				t.Fatal(err)
			}
			p, err := New(spec, tt.urls, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close(t.Context())
			got, err := p.Version(t.Context())
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %q, %v; want %q, %s", got, err, tt.want, tt.err)
			}
		})
	}
	env.CloseIdle()
}
