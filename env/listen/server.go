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

// keepAlive is the time that an idle connection stays open: five seconds, as in uvicorn,
// the HTTP server of AgentGym.
const keepAlive = 5 * time.Second

// Server is a running server.
type Server struct {
	URL string // address, such as http://127.0.0.1:36001

	http   *http.Server
	cancel context.CancelFunc // ends the context of all requests; further requests are refused
	unhook func() bool        // removes the callback for the end of the context of Serve
	served chan struct{}      // closed when the accept loop has ended
	err    error              // error of the accept loop; read after served is closed

	mu      sync.Mutex
	conns   int               // open connections; guarded by mu
	busy    map[net.Conn]bool // connections whose request is not completely answered; guarded by mu
	changed chan struct{}     // closed and replaced when conns or busy get smaller; guarded by mu
}

// Serve serves h on addr, such as "127.0.0.1:36001", or "127.0.0.1:0" for a free port. name
// is the name of the server in errors. The server runs until Close is called or ctx ends;
// Close must be called in both cases.
func Serve(ctx context.Context, name, addr string, h http.Handler, events *slog.Logger) (*Server, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("serve %s on %s: %w", name, addr, err)
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &Server{URL: "http://" + ln.Addr().String(), cancel: cancel, served: make(chan struct{}), busy: map[net.Conn]bool{}, changed: make(chan struct{})}
	errorLog := log.New(io.Discard, "", 0)
	if events != nil {
		errorLog = slog.NewLogLogger(events.Handler(), slog.LevelDebug)
	}
	s.http = &http.Server{
		Handler:           s.counted(life, h),
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
			s.err = fmt.Errorf("serve %s on %s: %w", name, addr, err)
		}
	}()
	s.unhook = context.AfterFunc(ctx, func() {
		s.cancel()
		s.http.Close()
	})
	return s, nil
}

// Done returns a channel that is closed when the server no longer accepts connections:
// after Close, after the end of its context, or after a failure. Close returns the
// failure.
func (s *Server) Done() <-chan struct{} { return s.served }

// Close stops the server: it refuses new connections, aborts hanging requests, waits
// for requests in progress, and closes all connections. It returns when all goroutines
// of the server have ended, or an error if ctx ends first.
func (s *Server) Close(ctx context.Context) error {
	s.unhook()
	s.cancel()
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

// wait blocks until the function done returns true. It calls done with mu held.
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

// notify wakes all calls of wait. The caller must hold mu.
func (s *Server) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// connKey is the key of the connection in the context of a request.
type connKey struct{}

// counted marks the connection as busy while h handles a request. The reply is sent
// after h returns; connState then removes the mark. When the context life has ended,
// counted rejects requests.
func (s *Server) counted(life context.Context, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		closing := life.Err() != nil
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
		s.notify()
	case http.StateClosed, http.StateHijacked:
		delete(s.busy, c)
		s.conns--
		s.notify()
	}
}
