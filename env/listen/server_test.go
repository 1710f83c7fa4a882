package listen_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/openmanus/openmanus/env/listen"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func serve(t *testing.T, h http.HandlerFunc) *listen.Server {
	t.Helper()
	s, err := listen.Serve(context.Background(), "a test", "127.0.0.1:0", h, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func get(url string) (string, error) {
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// TestClose checks that Close cancels the context of a request and waits until its handler has replied.
func TestClose(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done() // Close ends the context before the handler returns
		<-finish
		io.WriteString(w, "finished")
	})
	type answer struct {
		text string
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		text, err := get(s.URL + "/")
		answers <- answer{text, err}
	}()
	<-begun
	closed := make(chan error, 1)
	go func() { closed <- s.Close(context.Background()) }()
	select {
	case err := <-closed:
		t.Fatalf("Close returned before the handler did: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(finish)
	if a := <-answers; a.err != nil || a.text != "finished" {
		t.Errorf("%q, %v", a.text, a.err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// TestCloseTimeout checks that Close returns an error if its context ends first. A second Close succeeds.
func TestCloseTimeout(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	s := serve(t, func(http.ResponseWriter, *http.Request) {
		close(begun)
		<-finish
	})
	replied := make(chan error, 1)
	go func() {
		_, err := get(s.URL + "/")
		replied <- err
	}()
	<-begun
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := s.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close: %v", err)
	}
	close(finish)
	if err := <-replied; err == nil {
		t.Error("a request got a complete reply after Close had timed out")
	}
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestPortTaken(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	if _, err := listen.Serve(context.Background(), "a second", strings.TrimPrefix(s.URL, "http://"), http.NotFoundHandler(), nil); err == nil || !strings.Contains(err.Error(), "serve a second on ") {
		t.Errorf("the error of a second server on the port is %v", err)
	}
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
