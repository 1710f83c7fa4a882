package serve

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Server listens for the requests of a Handler.
type Server struct {
	URL string // such as http://127.0.0.1:8000

	h      *Handler
	http   *http.Server
	cancel context.CancelCauseFunc // ends the context of all requests
	served chan struct{}           // closed when the accept loop has ended
	err    error                   // error of the accept loop; read after served is closed
}

// errEnding is the answer of a server that is being closed.
var errEnding = Unavailable(5*time.Second, "the server is ending")

// ErrNoKey is the error of a server that other machines could use without a key.
var ErrNoKey = errors.New("an address that other machines can reach needs an API key")

// Loopback reports whether only this machine can reach an address.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// Listen serves h on an address, such as 127.0.0.1:8000, or 127.0.0.1:0 for a free port.
// Without a key it returns ErrNoKey for an address that other machines can reach, unless
// open is true.
func Listen(ctx context.Context, addr string, h *Handler, open bool) (*Server, error) {
	if h.o.APIKey == "" && !open && !Loopback(addr) {
		return nil, fmt.Errorf("listen on %s: %w", addr, ErrNoKey)
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	s := &Server{URL: "http://" + ln.Addr().String(), h: h, cancel: cancel, served: make(chan struct{})}
	s.http = &http.Server{
		Handler:           h,
		BaseContext:       func(net.Listener) context.Context { return life },
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(logWriter{h.o.Log}, "", 0),
	}
	go func() {
		defer close(s.served)
		if err := s.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			s.err = fmt.Errorf("serve on %s: %w", addr, err)
		}
	}()
	return s, nil
}

// logWriter writes the messages of net/http to the log at level debug.
type logWriter struct{ log *slog.Logger }

func (w logWriter) Write(p []byte) (int, error) {
	w.log.Debug("http", "message", string(p))
	return len(p), nil
}

// Done returns a channel that is closed when the server no longer accepts connections.
func (s *Server) Done() <-chan struct{} { return s.served }

// Close refuses new requests and waits until the running ones have ended. When ctx ends it
// breaks them off. It returns when all goroutines of the server have ended.
func (s *Server) Close(ctx context.Context) error {
	s.h.End(errEnding)
	err := s.http.Shutdown(ctx)
	s.cancel(s.h.ending.Load())
	if err != nil {
		// Requests end soon after their context; their replies tell the clients.
		wait, stop := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer stop()
		if err = s.http.Shutdown(wait); err != nil {
			err = errors.Join(err, s.http.Close())
		}
	}
	<-s.served
	return errors.Join(s.err, err)
}

// closeTimeout is the time that requests have to end after their context has ended.
const closeTimeout = 5 * time.Second
