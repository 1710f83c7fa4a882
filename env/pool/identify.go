package pool

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/internal/backoff"
)

// A server that fails to answer is asked for its tools so often, for so long. A
// sheet server takes 40 s to refuse a tool that it does not have.
const (
	identifyTries = 3
	identifyTime  = time.Minute
)

// identify finds out whether s is of the pool's environment, by an instance
// that plays nothing yet. A server that does not answer the question is taken
// for one of the pool's: it is asked again only after its next start.
func (p *Pool) identify(ctx context.Context, s *server, client env.Client) error {
	known, ok := client.(env.Identifier)
	if !ok || !s.unknown() {
		return nil
	}
	start := s.starts.Load() + 1
	limited, cancel := context.WithTimeout(ctx, identifyTime)
	defer cancel()
	for try := range identifyTries {
		if try > 0 && !backoff.Sleep(limited, backoff.Delay(p.o.ProbePause, p.o.ProbeMax, try)) {
			break
		}
		err := known.Identify(limited)
		var other *env.OtherEnvError
		if errors.As(err, &other) {
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

// unknown reports whether s has not been asked since its last start.
func (s *server) unknown() bool { return s.identified.Load() != s.starts.Load()+1 }

// checkEnv reports whether s, which has just answered its greeting, is of
// another environment: by the greeting, else by an instance, which the next
// lease gets.
func (p *Pool) checkEnv(ctx context.Context, s *server) error {
	p.mu.Lock()
	names := env.GreetedBy(s.greeting)
	if p.spec.Greeting != "" && len(names) > 0 && !slices.Contains(names, p.spec.Name) {
		p.mu.Unlock()
		return &env.OtherEnvError{Env: p.spec.Name, Server: s.url, Other: strings.Join(names, " or ")}
	}
	ask := p.spec.Tools != nil && s.live == 0 && len(s.free) == 0 && s.unknown()
	if ask {
		s.live++
	}
	p.mu.Unlock()
	if !ask {
		return nil
	}
	sl, err := p.create(ctx, s)
	if sl != nil {
		(&Lease{pool: p, server: s, slot: sl}).Release(true)
	}
	var other *env.OtherEnvError
	if errors.As(err, &other) {
		return err
	}
	return nil // the first lease says what is wrong otherwise
}
