package fault

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"path"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Header is a reply header that lists the injected faults, if the reply still has
// headers. Replies to real failures do not have it.
const Header = "X-Openmanus-Fault"

// maxBody limits the body of a request in bytes. The handler reads the whole body:
// otherwise net/http does not notice that a client has disconnected, and a duplicate
// needs the body again.
const maxBody = 64 << 20

// Observer receives an injected fault: its kind, such as "hang" or a status such as "500",
// and the pause of "slow".
type Observer func(r *http.Request, kind string, pause time.Duration)

type handler struct {
	next    http.Handler
	plan    *Plan
	observe Observer

	mu  sync.Mutex
	rng *rand.Rand // guarded by mu
}

// New returns a handler that injects the faults of plan in front of next. For every
// injected fault it calls observe, unless observe is nil, on the goroutine of the request.
// Faults are drawn in the order of arrival, so that a client that sends one request at a
// time gets the same faults in every run.
func New(next http.Handler, plan *Plan, observe Observer) http.Handler {
	if plan.Empty() {
		return next
	}
	if observe == nil {
		observe = func(*http.Request, string, time.Duration) {}
	}
	return &handler{next: next, plan: plan, observe: observe, rng: rand.New(rand.NewPCG(plan.seed, 0))}
}

// spared reports whether requests for a path get no faults: the greeting, which clients use
// as a health check, and the description of a server (env.DescriptionPath; this package may
// not import env). Clients do not count failures of these requests.
func spared(p string) bool { return p == "/" || p == "/openapi.json" }

// ServeHTTP draws the faults of the request and injects them.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if spared(r.URL.Path) {
		h.next.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			http.Error(w, "request body too large", http.StatusRequestEntityTooLarge)
			return
		}
		panic(http.ErrAbortHandler) // the client disconnected during its request
	}
	execute := func(w http.ResponseWriter) {
		c := r.Clone(r.Context())
		c.Body = io.NopCloser(bytes.NewReader(body))
		h.next.ServeHTTP(w, c)
	}
	repeatable := slices.Contains([]string{"create", "createEnv", "reset"}, path.Base(r.URL.Path))
	h.mu.Lock()
	pause, strike := h.plan.draw(h.rng, repeatable)
	h.mu.Unlock()
	if pause > 0 {
		h.observe(r, slow, pause)
		w.Header().Add(Header, slow)
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-r.Context().Done():
			t.Stop()
			panic(http.ErrAbortHandler) // the client disconnected, or the server closes
		}
	}
	if strike == nil {
		execute(w)
		return
	}
	h.observe(r, strike.kind, 0)
	w.Header().Add(Header, strike.kind)
	switch strike.kind {
	case hang:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case truncate:
		kept := newKeptReply()
		execute(kept)
		kept.breakOff(w)
	case reset:
		execute(newKeptReply())
		resetConnection(w)
	case duplicate:
		execute(newKeptReply())
		execute(w)
	default:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(strike.status)
		io.WriteString(w, cmp.Or(http.StatusText(strike.status), "Error")) // the client may have disconnected
	}
}

// keptReply is a http.ResponseWriter that stores the reply.
type keptReply struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func newKeptReply() *keptReply { return &keptReply{header: http.Header{}, status: http.StatusOK} }

func (k *keptReply) Header() http.Header { return k.header }

func (k *keptReply) WriteHeader(status int) {
	if status >= http.StatusOK { // informational responses do not count
		k.status = status
	}
}

func (k *keptReply) Write(p []byte) (int, error) { return k.body.Write(p) }

// breakOff sends the reply with its full Content-Length and half of its body, then
// closes the connection. It resets the connection of a reply without a body, so that
// the client notices.
func (k *keptReply) breakOff(w http.ResponseWriter) {
	if k.body.Len() == 0 {
		resetConnection(w)
		return
	}
	maps.Copy(w.Header(), k.header)
	w.Header().Set("Content-Length", strconv.Itoa(k.body.Len()))
	w.WriteHeader(k.status)
	w.Write(k.body.Bytes()[:k.body.Len()/2])
	_ = http.NewResponseController(w).Flush() // Flush fails if the client has disconnected
	panic(http.ErrAbortHandler)
}

// resetConnection closes the connection without a reply, with a TCP reset if it is a
// TCP connection.
func resetConnection(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // an HTTP/2 connection or a test's recorder cannot be reset
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}
