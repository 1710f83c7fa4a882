package pool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// DownError says that no server of an environment answers.
type DownError struct {
	Env    string
	Waited time.Duration // 0: they were asked at the start
	Err    error         // the last words of every server
}

// Error names the environment and every server with what came of asking it.
func (e *DownError) Error() string {
	if e.Waited == 0 {
		return fmt.Sprintf("environment %s: no server answers: %v", e.Env, e.Err)
	}
	return fmt.Sprintf("environment %s: no server answered for %v: %v", e.Env, e.Waited, e.Err)
}

// Unwrap gives the servers' errors, for errors.Is and errors.As.
func (e *DownError) Unwrap() error { return e.Err }

// Check asks every server for its greeting, and a tool server for its tools, so
// that a wrong address or a server that was never started is known before
// anything waits for it. A server that does not answer is left alone until it
// does; where none answers the error is a DownError. Where one is of another
// environment the error is an OtherEnvError.
func (p *Pool) Check(ctx context.Context) error {
	others := make([]error, len(p.servers))
	var wg sync.WaitGroup
	for i, s := range p.servers {
		wg.Go(func() {
			err := p.ask(ctx, s, false)
			if err == nil {
				others[i] = p.checkEnv(ctx, s)
				return
			}
			if ctx.Err() != nil {
				return
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			p.quarantine(s, err)
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := errors.Join(others...); err != nil {
		return err
	}
	if down := p.allDown(); down != nil {
		return &DownError{Env: p.spec.Name, Err: down}
	}
	return nil
}
