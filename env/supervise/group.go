package supervise

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Group is the running servers of one environment. It is safe for use by many
// goroutines.
type Group struct {
	o       Options
	servers []*server
	stop    context.CancelCauseFunc
	wg      sync.WaitGroup // one for every server
}

// errClosed is the cause of the end of a group that was closed.
var errClosed = errors.New("the environment servers are being stopped")

// Start starts all servers at once and returns when every one answers. If one
// does not, all are ended and the error says why, with the last lines of its
// log. ctx bounds the start only; Close ends the servers.
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
	if !detach() && err == nil { // ctx ended at the last moment
		err = context.Cause(ctx)
	}
	if err != nil {
		stop(err)
		g.wg.Wait()
		return nil, fmt.Errorf("launch %s: %w", o.Name, err)
	}
	return g, nil
}

// URLs are the servers' addresses, in the order of their ports.
func (g *Group) URLs() []string {
	urls := make([]string, len(g.servers))
	for i, s := range g.servers {
		urls[i] = s.url
	}
	return urls
}

// Close ends all servers and returns when nothing of them is left, or ctx
// ends. A second call is right.
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
		return fmt.Errorf("%s servers: they are still ending: %w", g.o.Name, context.Cause(ctx))
	}
}
