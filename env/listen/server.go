package listen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// keepAlive is how long an idle connection stays open: uvicorn's five
// seconds, so that clients meet here what they will meet there.
const keepAlive = 5 * time.Second

// Server is a running server.
type Server struct {
	URL string // such as http://127.0.0.1:36001

	http   *http.Server
	cancel context.CancelFunc // ends hanging and slow requests
	unhook func() bool        // stops listening to Serve's context
	served chan struct{}      // closed when the accept loop has ended
	err    error              // of the accept loop; read after served

	mu      sync.Mutex
	conns   int               // open connections; guarded by mu
	busy    map[net.Conn]bool // those on which a request is being answered, until the last byte is sent; guarded by mu
	changed chan struct{}     // closed and replaced when conns or busy fall; guarded by mu
	closing bool              // guarded by mu
}

// Serve serves h on addr, such as "127.0.0.1:36001", or "127.0.0.1:0" for a
// free port. what names the server in errors. It runs until Close or until
// ctx ends; either way Close must be called.
func Serve(ctx context.Context, what, addr string, h http.Handler, events *slog.Logger) (*Server, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("serve %s on %s: %w", what, addr, err)
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &Server{URL: "http://" + ln.Addr().String(), cancel: cancel, served: make(chan struct{}), busy: map[net.Conn]bool{}, changed: make(chan struct{})}
	errorLog := log.New(io.Discard, "", 0)
	if events != nil {
		errorLog = slog.NewLogLogger(events.Handler(), slog.LevelDebug)
	}
	s.http = &http.Server{
		Handler:           s.counted(h),
		BaseContext:       func(net.Listener) context.Context { return life },
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ConnState:         s.connState,
		IdleTimeout:       keepAlive,
		ReadHeaderTimeout: 30 * time.Second,
		ErrorLog:          errorLog,
	}
	go func() {
		defer close(s.served)
		if err := s.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			s.err = fmt.Errorf("serve %s on %s: %w", what, addr, err)
		}
	}()
	s.unhook = context.AfterFunc(ctx, func() {
		s.refuse()
		s.http.Close()
	})
	return s, nil
}

// Done is closed when the server has stopped accepting, by Close, by its
// context, or by a failure that Close then returns.
func (s *Server) Done() <-chan struct{} { return s.served }

// Close stops the server: no new connections, hanging requests broken off,
// requests being answered finished, then every connection closed. It returns
// when all the server's goroutines have ended, or with an error when ctx ends
// first.
func (s *Server) Close(ctx context.Context) error {
	s.unhook()
	s.refuse()
	waitBusy := s.wait(ctx, func() bool { return len(s.busy) == 0 })
	s.http.Close()
	waitConns := s.wait(ctx, func() bool { return s.conns == 0 })
	select {
	case <-s.served:
		return errors.Join(s.err, waitBusy, waitConns)
	case <-ctx.Done():
		return fmt.Errorf("close %s: %w", s.URL, context.Cause(ctx))
	}
}

// refuse turns new requests away and breaks off those that hang.
func (s *Server) refuse() {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.cancel()
}

// wait blocks until done, asked under mu, is true.
func (s *Server) wait(ctx context.Context, done func() bool) error {
	for {
		s.mu.Lock()
		ok, changed := done(), s.changed
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("close %s: %w", s.URL, context.Cause(ctx))
		}
	}
}

// fell wakes wait. The caller holds mu.
func (s *Server) fell() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// connKey is the key of the connection in a request's context.
type connKey struct{}

// counted notes that h answers on a connection. What h has written is sent
// after it returns, so connState says when the answer is over.
func (s *Server) counted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		closing := s.closing
		if !closing {
			s.busy[r.Context().Value(connKey{}).(net.Conn)] = true
		}
		s.mu.Unlock()
		if closing {
			w.Header().Set("Connection", "close")
			http.Error(w, "the server is closing", http.StatusServiceUnavailable)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func (s *Server) connState(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.conns++
	case http.StateIdle:
		delete(s.busy, c)
		s.fell()
	case http.StateClosed, http.StateHijacked:
		delete(s.busy, c)
		s.conns--
		s.fell()
	}
}
