package cli

import (
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openmanus/openmanus/internal/errext"
)

// startServe starts `env serve` in-process and returns its address and a function
// that interrupts the command and returns the exit code.
func startServe(t *testing.T, args ...string) (url string, interrupt func() int) {
	t.Helper()
	url, _, interrupt = startCommand(t, t.TempDir(), append([]string{"env", "serve"}, args...)...)
	return url, interrupt
}

// startCommand starts a command in-process that prints an address. It returns the address, a channel of the following
// lines, and a function that interrupts the command and returns the exit code.
func startCommand(t *testing.T, dir string, args ...string) (url string, later <-chan string, interrupt func() int) {
	t.Helper()
	ts := newTestState(t, args...)
	ts.Dir = dir
	ready := make(chan string, 8)
	ts.Stdout = lineWriter(ready)
	subscribed := make(chan chan<- Signal, 1)
	ts.Notify = func(c chan<- Signal) func() { subscribed <- c; return func() {} }
	code := make(chan int, 1)
	go func() { code <- Main(ts.State) }()
	select {
	case line := <-ready:
		_, url, _ = strings.Cut(strings.TrimSpace(line), " at ")
	case c := <-code:
		t.Fatalf("the command ended with exit code %d: %s", c, ts.err)
	}
	signals := <-subscribed
	return url, ready, func() int {
		signals <- syscall.SIGINT
		return <-code
	}
}

// lineWriter sends each line to a channel.
type lineWriter chan string

func (l lineWriter) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

func post(t *testing.T, url, body string) string {
	t.Helper()
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	reply, err := client.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	b, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestEnvServe(t *testing.T) {
	url, interrupt := startServe(t, "maze", "--port", "0")
	if !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Errorf("address %q", url)
	}
	if got := post(t, url+"/maze/create", ""); got != `{"id":0}` {
		t.Errorf("reply to create: %s", got)
	}
	if got := post(t, url+"/maze/reset", `{"id":0,"game":0}`); !strings.Contains(got, "Your current position is at position 1, 1") {
		t.Errorf("reply to reset: %s", got)
	}
	if code := interrupt(); code != 0 {
		t.Errorf("exit code %d after Ctrl-C", code)
	}
}

func TestEnvServePortTaken(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	ts := newTestState(t, "env", "serve", "maze", "--port", port)
	if code := Main(ts.State); code != int(errext.Env) || !strings.Contains(ts.err.String(), "--port") {
		t.Errorf("exit %d, %q", code, ts.err)
	}
}
