package env

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openmanus/openmanus/internal/backoff"
)

// OtherEnvError says that a server is of another environment than its address
// is configured for.
type OtherEnvError struct {
	Env, Server string
	Other       string // the environment it is of
}

// Error says which is which.
func (e *OtherEnvError) Error() string {
	return fmt.Sprintf("environment %s: the server at %s is one of %s", e.Env, e.Server, e.Other)
}

// identifier is a Client that can find out whether its server is of the
// client's environment, before its first reset. The error is an OtherEnvError,
// or that of a call that failed.
type identifier interface {
	identify(ctx context.Context) error
}

// greetingOf returns the environments whose servers have this greeting and are
// known by it: the greeting "ok" is anybody's.
func greetingOf(words string) []string {
	words = strings.Trim(strings.TrimSpace(words), `"`)
	var names []string
	for _, name := range Names() {
		if s, err := Lookup(name); err == nil && s.Greeting == words && words != "" && words != anyGreeting {
			names = append(names, name)
		}
	}
	return names
}

// anyGreeting is what servers of many environments answer.
const anyGreeting = "ok"

// A server that fails to answer is asked for its tools so often, for so long. A
// sheet server takes 40 s to refuse a tool that it does not have.
const (
	identifyTries = 3
	identifyTime  = time.Minute
)

// identify finds out whether s is of the pool's environment, by an instance
// that plays nothing yet. A server that does not answer the question is taken
// for one of the pool's: it is asked again only after its next start.
func (p *Pool) identify(ctx context.Context, s *poolServer, client Client) error {
	known, ok := client.(identifier)
	if !ok || !s.unknown() {
		return nil
	}
	start := s.starts.Load() + 1
	limited, cancel := context.WithTimeout(ctx, identifyTime)
	defer cancel()
	for try := range identifyTries {
		if try > 0 && !backoff.Sleep(limited, backoff.Delay(defaultBackoff, maxBackoff, try)) {
			break
		}
		err := known.identify(limited)
		var other *OtherEnvError
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
func (s *poolServer) unknown() bool { return s.identified.Load() != s.starts.Load()+1 }

// checkEnv reports whether s, which has just answered its greeting, is of
// another environment: by the greeting, else by an instance, which the next
// lease gets.
func (p *Pool) checkEnv(ctx context.Context, s *poolServer) error {
	p.mu.Lock()
	names := greetingOf(s.greeting)
	if p.spec.Greeting != "" && len(names) > 0 && !slices.Contains(names, p.spec.Name) {
		p.mu.Unlock()
		return &OtherEnvError{Env: p.spec.Name, Server: s.url, Other: strings.Join(names, " or ")}
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
	var other *OtherEnvError
	if errors.As(err, &other) {
		return err
	}
	return nil // the first lease says what is wrong otherwise
}
