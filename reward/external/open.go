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

// Options configures a scorer.
type Options struct {
	Timeout  time.Duration // limit of a batch; 0: DefaultTimeout
	Batch    int           // largest number of samples in a request; 0: DefaultBatch
	MaxReply int           // largest reply in bytes; 0: DefaultMaxReply
	Dir      string        // working directory of a program
	Env      []string      // environment of a program, as KEY=VALUE
	Log      *slog.Logger  // nil: no log
	// TimeoutName is the key or flag that sets Timeout, for errors; "":
	// DefaultTimeoutName.
	TimeoutName string
}

// Defaults of Options.
const (
	DefaultTimeout  = time.Minute
	DefaultBatch    = 256
	DefaultMaxReply = 64 << 20

	DefaultTimeoutName = "reward.score_timeout_s"
)

// backend is a server or a program.
type backend interface {
	// call sends a request and returns the reply.
	call(ctx context.Context, body []byte) ([]byte, error)
	close() error
}

// Open returns a scorer for fn, an HTTP address or "exec:" with a command. It sends
// nothing, but returns an *Error of KindUnreachable if the program does not exist.
func Open(fn string, o Options) (reward.Scorer, error) {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Batch = cmp.Or(o.Batch, DefaultBatch)
	o.MaxReply = cmp.Or(o.MaxReply, DefaultMaxReply)
	o.TimeoutName = cmp.Or(o.TimeoutName, DefaultTimeoutName)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &scorer{fn: fn, o: o}
	if command, ok := strings.CutPrefix(fn, "exec:"); ok {
		p, err := newProgram(command, o)
		if err != nil {
			return nil, s.named(err)
		}
		s.backend, s.numbered = p, true
		return s, nil
	}
	if !strings.HasPrefix(fn, "http://") && !strings.HasPrefix(fn, "https://") {
		return nil, fmt.Errorf("score function %q: want http://, https:// or exec:COMMAND", fn)
	}
	s.backend = newServer(fn, o)
	return s, nil
}

// scorer sends batches one after another.
type scorer struct {
	fn       string
	o        Options
	backend  backend
	numbered bool // a program repeats the request number in its reply; HTTP needs no number
	n        int  // requests so far
}

// named adds the name of the score function to an error.
func (s *scorer) named(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		e.Fn = s.fn
		return e
	}
	return fmt.Errorf("score function %s: %w", s.fn, err)
}

// Starter is a scorer that can be started before the first batch, to detect a
// failed start early.
type Starter interface {
	// Start starts the score function unless it is running. Start returns an error
	// if the score function has ended.
	Start(ctx context.Context) error
}

// Start starts a program. It does nothing for a server.
func (s *scorer) Start(ctx context.Context) error {
	p, ok := s.backend.(*program)
	if !ok {
		return nil
	}
	if err := p.start(ctx); err != nil {
		return s.named(err)
	}
	return nil
}

// Score sends the samples in batches of at most Options.Batch.
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
	for attempt := 1; ; attempt++ {
		scores, err := s.try(ctx, samples)
		switch failed, ok := errors.AsType[*Error](err); {
		case err == nil:
			return scores, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !ok || !failed.retryable() || attempt == 2:
			return nil, err
		}
		s.o.Log.Warn("score function failed; retrying once", "error", err)
	}
}

func (s *scorer) try(ctx context.Context, samples []reward.Sample) ([]reward.Score, error) {
	s.n++
	body, err := encode(s.n, samples)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	text, err := s.backend.call(limited, body)
	if err != nil {
		e, ok := errors.AsType[*Error](err)
		if !ok {
			e = &Error{Kind: KindUnreachable, Err: err}
		}
		if errors.Is(limited.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
			// The call failed because of the timeout, so report it instead of the call's error.
			e.Kind, e.Err = KindTimeout, fmt.Errorf("no reply to %d samples within %v (%s)", len(samples), s.o.Timeout, s.o.TimeoutName)
		}
		return nil, s.named(e)
	}
	want := 0
	if s.numbered {
		want = s.n
	}
	scores, err := decode(text, want, samples)
	if err != nil {
		return nil, &Error{Fn: s.fn, Kind: KindReply, Err: err}
	}
	return scores, nil
}

// Close ends the program, or closes the idle connections.
func (s *scorer) Close() error { return s.backend.close() }
