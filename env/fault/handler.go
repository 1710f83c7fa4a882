package fault

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path"
	"strconv"
	"sync"
	"time"
)

// Header is a reply header that lists the injected faults, if the reply still has
// headers. Real failures lack it.
const Header = "X-Openmanus-Fault"

// maxBody bounds the body of a request, which is read completely: only then does
// net/http notice that a client has disconnected, and a duplicate needs the body again.
const maxBody = 64 << 20

// Injected is one injected fault.
type Injected struct {
	Kind  string        // hang, slow, truncate, reset, duplicate, or a status such as 500
	Pause time.Duration // for slow
}

// Handler injects faults in front of another http.Handler.
type Handler struct {
	next http.Handler
	plan *Plan
	tell func(*http.Request, Injected)

	mu  sync.Mutex
	rng *rand.Rand // guarded by mu
}

// New returns a Handler that injects the faults of plan in front of next. tell, unless
// nil, is called for every injected fault from the goroutine of the request. Faults are
// drawn in the order of arrival, so that a client that sends one request at a time gets
// the same faults in every run.
func New(next http.Handler, plan *Plan, tell func(*http.Request, Injected)) http.Handler {
	if plan.Empty() {
		return next
	}
	if tell == nil {
		tell = func(*http.Request, Injected) {}
	}
	return &Handler{next: next, plan: plan, tell: tell, rng: rand.New(rand.NewPCG(plan.seed, 0))}
}

// Repeatable reports whether a path is one of create or reset.
func Repeatable(p string) bool {
	switch path.Base(p) {
	case "create", "createEnv", "reset":
		return true
	}
	return false
}

// spared reports whether requests for a path get no faults: the greeting, which
// clients use as a health check, and the description of a server (env.DescriptionPath;
// this package may not import env), whose failures no client counts.
func spared(p string) bool { return p == "/" || p == "/openapi.json" }

// ServeHTTP draws the faults of the request and injects them.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if spared(r.URL.Path) {
		h.next.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		var long *http.MaxBytesError
		if errors.As(err, &long) {
			http.Error(w, "request body too large", http.StatusRequestEntityTooLarge)
			return
		}
		panic(http.ErrAbortHandler) // the client disconnected during its request
	}
	again := func() *http.Request {
		c := r.Clone(r.Context())
		c.Body = io.NopCloser(bytes.NewReader(body))
		return c
	}
	h.mu.Lock()
	pause, strike := h.plan.draw(h.rng, Repeatable(r.URL.Path))
	h.mu.Unlock()
	if pause > 0 {
		h.tell(r, Injected{Kind: "slow", Pause: pause})
		w.Header().Add(Header, "slow")
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-r.Context().Done():
			t.Stop()
			panic(http.ErrAbortHandler) // the client disconnected, or the server closes
		}
	}
	if strike == nil {
		h.next.ServeHTTP(w, again())
		return
	}
	h.tell(r, Injected{Kind: strike.name()})
	w.Header().Add(Header, strike.name())
	switch strike.kind {
	case status:
		text := http.StatusText(strike.status)
		if text == "" {
			text = "Error"
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		w.WriteHeader(strike.status)
		io.WriteString(w, text) // the client may have disconnected
	case hang:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case truncate:
		kept := newKeptReply()
		h.next.ServeHTTP(kept, again())
		kept.breakOff(w)
	case reset:
		h.next.ServeHTTP(newKeptReply(), again())
		resetConnection(w)
	case duplicate:
		h.next.ServeHTTP(newKeptReply(), again())
		h.next.ServeHTTP(w, again())
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
	if status >= http.StatusOK { // not an informational response
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
	for name, values := range k.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", strconv.Itoa(k.body.Len()))
	w.WriteHeader(k.status)
	w.Write(k.body.Bytes()[:k.body.Len()/2])
	_ = http.NewResponseController(w).Flush() // fails if the client has disconnected
	panic(http.ErrAbortHandler)
}

// resetConnection closes the connection without a reply, with a TCP reset if it is a
// TCP connection.
func resetConnection(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2 or a recorder of a test has no connection to reset
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}
