package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// The bounds of the streams to browsers.
const (
	maxStreams   = 32               // browsers at the same time
	maxPending   = 64               // messages that wait for a browser; one more drops it
	writeTimeout = 10 * time.Second // for a message
	pingEvery    = 15 * time.Second // so that a closed connection is noticed
)

// message is a server-sent event.
type message struct {
	event string
	data  []byte
}

// streams holds the connected browsers.
type streams struct {
	mu   sync.Mutex
	all  map[chan message]bool // guarded by mu
	over bool                  // guarded by mu: no further streams

	serving sync.WaitGroup
}

// open adds a stream. It returns nil if there are too many or the run has ended.
func (s *streams) open() chan message {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || len(s.all) >= maxStreams {
		return nil
	}
	if s.all == nil {
		s.all = map[chan message]bool{}
	}
	c := make(chan message, maxPending)
	s.all[c] = true
	s.serving.Add(1)
	return c
}

// close removes a stream, unless send has dropped it.
func (s *streams) close(c chan message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[c] {
		delete(s.all, c)
		close(c)
	}
	s.serving.Done()
}

// send passes a message to every stream without waiting, and drops a stream that is full. The
// browser then connects again and receives the whole state.
func (s *streams) send(m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.all {
		select {
		case c <- m:
		default:
			delete(s.all, c)
			close(c)
		}
	}
}

// end closes all streams and waits until their pending messages are written or ctx ends.
func (s *streams) end(ctx context.Context) {
	s.mu.Lock()
	s.over = true
	for c := range s.all {
		close(c)
	}
	s.all = nil
	s.mu.Unlock()
	written := make(chan struct{})
	go func() {
		s.serving.Wait() // ends at the latest when the server is closed
		close(written)
	}()
	select {
	case <-written:
	case <-ctx.Done():
	}
}

func (s *streams) empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all) == 0
}

// serve writes the messages of a stream, after the given first messages, until the stream or the request ends.
func (s *streams) serve(w http.ResponseWriter, r *http.Request, c chan message, first []message) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	control := http.NewResponseController(w)
	write := func(format string, args ...any) bool {
		if err := control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return false
		}
		if _, err := fmt.Fprintf(w, format, args...); err != nil {
			return false
		}
		return control.Flush() == nil
	}
	for _, m := range first {
		if !write("event: %s\ndata: %s\n\n", m.event, m.data) {
			return
		}
	}
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		select {
		case m, ok := <-c:
			if !ok || !write("event: %s\ndata: %s\n\n", m.event, m.data) {
				return
			}
		case <-ping.C:
			if !write(": ping\n\n") {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}
