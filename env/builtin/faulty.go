package builtin

import (
	"bytes"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// faulty is a handler with faults in front of it.
type faulty struct {
	next   http.Handler
	faults *Faults

	mu  sync.Mutex
	rng *rand.Rand // guarded by mu
}

// WithFaults puts f in front of next. The faults' order is that of arrival,
// so a client that asks one thing at a time meets the same ones every time.
func WithFaults(next http.Handler, f *Faults) http.Handler {
	if f == nil || len(f.rules) == 0 {
		return next
	}
	return &faulty{next: next, faults: f, rng: rand.New(rand.NewPCG(f.seed, 0))}
}

func (h *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/" {
		h.next.ServeHTTP(w, r)
		return
	}
	h.mu.Lock()
	pause, strike := h.faults.draw(h.rng)
	h.mu.Unlock()
	if pause > 0 {
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-r.Context().Done():
			t.Stop()
			panic(http.ErrAbortHandler) // the client left or the server closes
		}
	}
	if strike == nil {
		h.next.ServeHTTP(w, r)
		return
	}
	switch strike.kind {
	case faultStatus:
		text := http.StatusText(strike.status)
		if text == "" {
			text = "Error"
		}
		writeText(w, strike.status, text)
	case faultHang:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case faultTruncate:
		kept := &keptReply{header: http.Header{}}
		h.next.ServeHTTP(kept, r)
		kept.breakOff(w)
	case faultReset:
		h.next.ServeHTTP(&keptReply{header: http.Header{}}, r)
		resetConnection(w)
	}
}

// keptReply takes a reply instead of the network.
type keptReply struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (k *keptReply) Header() http.Header { return k.header }

func (k *keptReply) WriteHeader(status int) { k.status = status }

func (k *keptReply) Write(p []byte) (int, error) { return k.body.Write(p) }

// breakOff sends the reply with its full length announced and half its body,
// then ends the connection.
func (k *keptReply) breakOff(w http.ResponseWriter) {
	for name, values := range k.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", strconv.Itoa(k.body.Len()))
	w.WriteHeader(k.status)
	w.Write(k.body.Bytes()[:k.body.Len()/2])
	if err := http.NewResponseController(w).Flush(); err != nil {
		panic(err) // net/http's own writer can always flush
	}
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
