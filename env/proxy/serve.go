package proxy

import (
	"context"
	"errors"

	"github.com/openmanus/openmanus/env/listen"
)

// Server is a running proxy.
type Server struct {
	*listen.Server
	proxy *Proxy
}

// Serve starts a proxy on addr, such as "127.0.0.1:36101", or "127.0.0.1:0" for a free
// port. It runs until Close is called or ctx ends; Close must be called in both cases.
func Serve(ctx context.Context, addr string, o Options) (*Server, error) {
	p, err := New(o)
	if err != nil {
		return nil, err
	}
	s, err := listen.Serve(ctx, "a proxy", addr, p, o.Log)
	if err != nil {
		return nil, err
	}
	return &Server{s, p}, nil
}

// Counts returns the counts so far.
func (s *Server) Counts() Counts { return s.proxy.Counts() }

// Close stops the proxy as listen.Server.Close does, then closes its connections to
// the server. It also returns the error of the journal, if any.
func (s *Server) Close(ctx context.Context) error {
	err := s.Server.Close(ctx)
	s.proxy.Close()
	return errors.Join(err, s.proxy.journal.failure())
}
