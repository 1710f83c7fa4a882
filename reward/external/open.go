package external

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/openmanus/openmanus/reward"
)

// Options bound what a score function may take, and say where a program runs.
type Options struct {
	Timeout  time.Duration // of one batch; DefaultTimeout if 0
	Batch    int           // samples in a request; DefaultBatch if 0
	MaxReply int           // bytes; DefaultMaxReply if 0
	Dir      string        // working folder of a program
	Env      []string      // its environment, as KEY=VALUE
	Log      *slog.Logger  // nil: silent
	// TimeoutName is what the user sets Timeout by; DefaultTimeoutName if "".
	TimeoutName string
}

// The values where Options leave them open.
const (
	DefaultTimeout  = time.Minute
	DefaultBatch    = 256
	DefaultMaxReply = 64 << 20

	DefaultTimeoutName = "reward.score_timeout_s"
)

// asker sends one batch and returns what came back.
type asker interface {
	ask(ctx context.Context, n int, body []byte) ([]byte, error)
	// repeats reports whether a reply has to carry the request's number.
	repeats() bool
	close() error
}

// Open makes the scorer of a function that is named by an address or, after
// "exec:", by a command. Neither is asked anything yet; but a program has to be
// there, else it is a KindUnreachable.
func Open(fn string, o Options) (reward.Scorer, error) {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Batch = cmp.Or(o.Batch, DefaultBatch)
	o.MaxReply = cmp.Or(o.MaxReply, DefaultMaxReply)
	o.TimeoutName = cmp.Or(o.TimeoutName, DefaultTimeoutName)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if command, ok := strings.CutPrefix(fn, "exec:"); ok {
		p, err := newProgram(command, o)
		var e *Error
		switch {
		case errors.As(err, &e):
			e.Fn = fn
			return nil, e
		case err != nil:
			return nil, fmt.Errorf("score function %s: %w", fn, err)
		}
		return &scorer{fn: fn, o: o, to: p}, nil
	}
	if !strings.HasPrefix(fn, "http://") && !strings.HasPrefix(fn, "https://") {
		return nil, fmt.Errorf("score function %q names neither an address nor, after exec:, a command", fn)
	}
	return &scorer{fn: fn, o: o, to: newServer(fn, o)}, nil
}

// scorer asks for one batch after the other.
type scorer struct {
	fn string
	o  Options
	to asker
	n  int // requests so far
}

// Starter is a score function that can be started before it is asked, so that
// one which cannot start is noticed early.
type Starter interface {
	// Start starts it unless it runs, and fails if it has ended.
	Start(ctx context.Context) error
}

// Start starts a program; a server is running already.
func (s *scorer) Start(ctx context.Context) error {
	p, ok := s.to.(*program)
	if !ok {
		return nil
	}
	err := p.start(ctx)
	var e *Error
	if errors.As(err, &e) {
		e.Fn = s.fn
	}
	return err
}

// Score asks in batches of at most Options.Batch samples.
func (s *scorer) Score(ctx context.Context, samples []reward.Sample) ([]reward.Score, error) {
	out := make([]reward.Score, 0, len(samples))
	for start := 0; start < len(samples); start += s.o.Batch {
		batch := samples[start:min(start+s.o.Batch, len(samples))]
		scores, err := s.batch(ctx, batch)
		if err != nil {
			return nil, err
		}
		out = append(out, scores...)
	}
	return out, nil
}

func (s *scorer) batch(ctx context.Context, samples []reward.Sample) ([]reward.Score, error) {
	var failed *Error
	for attempt := range 2 {
		scores, err := s.once(ctx, samples)
		if err == nil {
			return scores, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !errors.As(err, &failed) || !failed.again() {
			return nil, err
		}
		if attempt == 0 {
			s.o.Log.Warn("a score function failed and is asked once more", "error", err)
		}
	}
	return nil, failed
}

func (s *scorer) once(ctx context.Context, samples []reward.Sample) ([]reward.Score, error) {
	s.n++
	body, err := encode(s.n, samples)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	text, err := s.to.ask(limited, s.n, body)
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			e = &Error{Kind: KindUnreachable, Err: err}
		}
		if errors.Is(limited.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
			// Whatever the end of the wait has led to, it is not the cause.
			e.Kind, e.Err = KindTimeout, fmt.Errorf("no answer to %d samples within %v (%s)", len(samples), s.o.Timeout, s.o.TimeoutName)
		}
		e.Fn = s.fn
		return nil, e
	}
	want := 0
	if s.to.repeats() {
		want = s.n
	}
	scores, err := decode(text, want, len(samples))
	if err != nil {
		return nil, &Error{Fn: s.fn, Kind: KindReply, Err: err}
	}
	return scores, nil
}

// Close ends the program, or the connections.
func (s *scorer) Close() error { return s.to.close() }
