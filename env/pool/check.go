package pool

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/internal/backoff"
)

// Check requests the greeting of every server, and a tool server's list of tools, to find
// a wrong address or a missing server before an episode needs the server. It quarantines
// servers that do not answer. The error is a DownError if no server answers, and an
// env.OtherEnvError if a server belongs to another environment.
func (p *Pool) Check(ctx context.Context) error {
	others := make([]error, len(p.servers))
	var wg sync.WaitGroup
	for i, s := range p.servers {
		wg.Go(func() {
			err := p.probeRepeatedly(ctx, s, false)
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
	if _, _, down := p.down(Place{}); down != nil {
		return &DownError{Env: p.spec.Name, Err: down}
	}
	return nil
}

// checkEnv returns an env.OtherEnvError if s belongs to another environment. It
// compares the greeting that Check received, or creates an instance to identify the
// server. The next lease gets this instance.
func (p *Pool) checkEnv(ctx context.Context, s *server) error {
	p.mu.Lock()
	names := env.GreetedBy(s.greeting)
	if p.spec.Greeting != "" && len(names) > 0 && !slices.Contains(names, p.spec.Name) {
		p.mu.Unlock()
		return &env.OtherEnvError{Env: p.spec.Name, Server: s.url, Other: strings.Join(names, " or ")}
	}
	create := p.spec.Tools != nil && s.live == 0 && len(s.free) == 0 && s.unidentified()
	if create {
		s.live++
	}
	p.mu.Unlock()
	if !create {
		return nil
	}
	sl, err := p.create(ctx, s)
	if sl != nil {
		(&Lease{pool: p, server: s, slot: sl}).Release()
	}
	if _, ok := errors.AsType[*env.OtherEnvError](err); ok {
		return err
	}
	return nil // the next lease repeats the request and returns its error
}

// These limits apply while a server is identified. A sheet server takes 40 s to
// reject an unknown tool.
const (
	identifyTries = 3
	identifyTime  = time.Minute
)

// identify returns an env.OtherEnvError if client finds that s belongs to another
// environment. The instance of client plays no episode yet. A server that does not
// answer passes, and is identified again only after its next start.
func (p *Pool) identify(ctx context.Context, s *server, client env.Client) error {
	id, ok := client.(env.Identifier)
	if !ok || !s.unidentified() {
		return nil
	}
	start := s.starts.Load() + 1
	limited, cancel := context.WithTimeout(ctx, identifyTime)
	defer cancel()
	for try := range identifyTries {
		if try > 0 && !backoff.Sleep(limited, backoff.Delay(p.o.ProbePause, p.o.ProbeMax, try)) {
			break
		}
		err := id.Identify(limited)
		if _, ok := errors.AsType[*env.OtherEnvError](err); ok {
			return err
		}
		if err == nil {
			break
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.identified.Store(start)
	return nil
}

// unidentified reports whether s was not identified since its last start.
func (s *server) unidentified() bool { return s.identified.Load() != s.starts.Load()+1 }

// Version returns the sorted versions of the pool's servers (env.ServerVersion)
// without duplicates. It fails if a server does not answer.
func (p *Pool) Version(ctx context.Context) (string, error) {
	if p.spec.Prompts {
		return "none", nil
	}
	var names []string
	for _, s := range p.servers {
		name, err := env.ServerVersion(ctx, p.o.Client.HTTPClient(), s.root)
		if err != nil {
			return "", err
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", "), nil
}
