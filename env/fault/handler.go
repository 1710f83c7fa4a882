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

// Header names the faults a reply has met, as far as it could still say so. A
// real failure has no such header.
const Header = "X-Openmanus-Fault"

// maxBody bounds a request, which is kept whole: net/http notices that a
// client has gone only once its request was read to the end, and a duplicate
// is sent from memory.
const maxBody = 64 << 20

// Injected is one fault that was carried out.
type Injected struct {
	Kind  string        // hang, slow, truncate, reset, duplicate, or a status such as 500
	Pause time.Duration // of slow
}

// Handler is an http.Handler with faults in front of it.
type Handler struct {
	next http.Handler
	plan *Plan
	tell func(*http.Request, Injected)

	mu  sync.Mutex
	rng *rand.Rand // guarded by mu
}

// New puts plan in front of next. tell, unless nil, is told of every fault as
// it is carried out, from the goroutine of its request. The faults' order is
// that of arrival, so a client that asks one thing at a time meets the same
// ones every time.
func New(next http.Handler, plan *Plan, tell func(*http.Request, Injected)) http.Handler {
	if plan.Empty() {
		return next
	}
	if tell == nil {
		tell = func(*http.Request, Injected) {}
	}
	return &Handler{next: next, plan: plan, tell: tell, rng: rand.New(rand.NewPCG(plan.seed, 0))}
}

// Repeatable reports whether a path is that of a create or a reset.
func Repeatable(p string) bool {
	switch path.Base(p) {
	case "create", "createEnv", "reset":
		return true
	}
	return false
}

// spared reports whether no fault strikes requests for a path: the greeting,
// by which a bad server is told from one that is gone, and what a server calls
// itself (env.DescriptionPath; this package may not import env), of which no
// client counts what becomes.
func spared(p string) bool { return p == "/" || p == "/openapi.json" }

// ServeHTTP draws the request's faults and carries them out.
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
		panic(http.ErrAbortHandler) // the client left in the middle of its request
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
			panic(http.ErrAbortHandler) // the client left or the server closes
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
		io.WriteString(w, text) // a client that has gone is no concern of ours
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

// keptReply takes a reply instead of the network.
type keptReply struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func newKeptReply() *keptReply { return &keptReply{header: http.Header{}, status: http.StatusOK} }

func (k *keptReply) Header() http.Header { return k.header }

func (k *keptReply) WriteHeader(status int) {
	if status >= http.StatusOK { // what comes before is no reply yet
		k.status = status
	}
}

func (k *keptReply) Write(p []byte) (int, error) { return k.body.Write(p) }

// breakOff sends the reply with its full length announced and half its body,
// then ends the connection. A reply without a body has no half: its connection
// is reset instead, so that the client is sure to notice.
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
	_ = http.NewResponseController(w).Flush() // it fails for a client that has gone, which sees no reply at all
	panic(http.ErrAbortHandler)
}

// resetConnection drops the connection without a word, with a TCP reset where
// it is TCP.
func resetConnection(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2 or a test's recorder: the closest there is
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}
