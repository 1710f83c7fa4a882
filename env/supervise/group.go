package supervise

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Group contains the running servers of one environment. It is safe for concurrent use.
type Group struct {
	o       Options
	servers []*server
	stop    context.CancelCauseFunc
	wg      sync.WaitGroup // counts one goroutine per server
}

// errClosed is the cause of the end of a group's context after Close.
var errClosed = errors.New("the environment servers are being stopped")

// Start starts all servers concurrently and returns when all of them answer. If a
// server does not answer, Start stops all servers and returns an error with the last
// lines of that server's log. ctx bounds only the start; Close stops the servers.
func Start(ctx context.Context, o Options) (*Group, error) {
	o.fill()
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("launch %s: %w", o.Name, err)
	}
	g := &Group{o: o}
	life, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	g.stop = stop
	detach := context.AfterFunc(ctx, func() { stop(context.Cause(ctx)) })
	first := make(chan error, o.Servers)
	for i := range o.Servers {
		s := newServer(&g.o, o.BasePort+i)
		g.servers = append(g.servers, s)
		g.wg.Go(func() { s.run(life, first) })
	}
	var err error
	for range g.servers {
		if err = <-first; err != nil {
			break
		}
	}
	if !detach() && err == nil { // ctx ended after the last server was ready
		err = context.Cause(ctx)
	}
	if err != nil {
		stop(err)
		g.wg.Wait()
		return nil, fmt.Errorf("launch %s: %w", o.Name, err)
	}
	return g, nil
}

// URLs returns the addresses of the servers in the order of their ports.
func (g *Group) URLs() []string {
	urls := make([]string, len(g.servers))
	for i, s := range g.servers {
		urls[i] = s.url
	}
	return urls
}

// Close stops all servers and returns when all their processes have ended, or ctx
// ends. It may be called several times.
func (g *Group) Close(ctx context.Context) error {
	g.stop(errClosed)
	gone := make(chan struct{})
	go func() {
		g.wg.Wait()
		close(gone)
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s servers have not ended yet: %w", g.o.Name, context.Cause(ctx))
	}
}
