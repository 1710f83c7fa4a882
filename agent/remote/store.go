package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/openmanus/openmanus/agent/llm/chat"
	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/serve"
	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/data"
)

// Env is the name of the environment of all episodes of a Store.
const Env = "remote"

// Options configure a Store.
type Options struct {
	Engine    engine.Engine
	Renderer  *chat.Renderer
	Tokenizer *tokenizer.Tokenizer

	// The sampling of all episodes. Training computes log-probs under this distribution.
	Temperature float32
	TopP        float32
	TopK        int
	// Override replaces the sampling fields of requests. Without Override, a request with
	// other values is refused.
	Override   bool
	MaxNew     int // tokens of a reply; a request can lower it
	MaxContext int // tokens of a context

	// Idle is the time without a request, a reply in progress or a reward after which an
	// episode is dropped.
	Idle time.Duration
	// Waiting is the number of requests that may wait for the admission of their session.
	Waiting int
	// Stop ends Collect with its cause.
	Stop context.Context
	Log  *slog.Logger // nil: no log
}

// Store holds the episodes of agents in other programs.
type Store struct {
	o      Options
	ended  chan struct{} // closed by Close
	end    sync.Once
	worker sync.WaitGroup

	mu       sync.Mutex
	step     *step // step that collects episodes; nil between two steps
	episodes map[string]*episode
	old      []string      // ids of ended episodes, oldest first
	changed  chan struct{} // closed and replaced when step or a seat changes
	waiting  int           // requests that wait for admission
	dropped  int           // episodes dropped since the last step
	clock    int64         // number of the newest reply, for the order of contexts
}

var (
	_ serve.Sessions = (*Store)(nil)
	_ rollout.Source = (*Store)(nil)
)

// New returns a Store. The caller calls Close.
func New(o Options) (*Store, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Idle <= 0 || o.MaxNew < 1 || o.MaxContext < 2 || !(o.Temperature > 0) {
		return nil, fmt.Errorf("remote episodes: an idle time of %v, %d new tokens, a context of %d tokens and the temperature %g must be positive", o.Idle, o.MaxNew, o.MaxContext, o.Temperature)
	}
	s := &Store{o: o, ended: make(chan struct{}), episodes: map[string]*episode{}, changed: make(chan struct{})}
	s.worker.Go(s.watch)
	return s, nil
}

// Close drops all running episodes and ends the Store's goroutine. A second Close has no
// effect.
func (s *Store) Close() {
	s.end.Do(func() { close(s.ended) })
	s.worker.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.episodes {
		if e.status == running {
			s.drop(e, "the training has ended")
		}
	}
}

// watch drops idle episodes and ends steps that cannot be completed.
func (s *Store) watch() {
	t := time.NewTicker(min(max(s.o.Idle/20, time.Millisecond), time.Second))
	defer t.Stop()
	for {
		select {
		case <-s.ended:
			return
		case now := <-t.C:
			s.dropIdle(now)
		}
	}
}

func (s *Store) dropIdle(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.episodes {
		if e.status == running && e.replying == 0 && now.Sub(e.touched) >= s.o.Idle {
			s.drop(e, fmt.Sprintf("no request and no reward for %v", s.o.Idle))
			s.o.Log.Warn("episode dropped", "session", e.id, "task", e.task.ID, "turns", e.turns, "reason", e.reason)
		}
	}
	if s.step != nil && s.waiting > 0 && s.step.stalled(now, s.o.Idle) {
		s.o.Log.Warn("the step ends with incomplete groups: no episode is running, and the sessions that wait belong to other tasks; "+
			"play every task rollout.group_size times", "step", s.step.o.Step, "episodes", s.step.finished, "wanted", s.step.groups*s.step.o.GroupSize, "waiting", s.waiting)
		s.step.end()
	}
}

// notify wakes the requests that wait for admission.
func (s *Store) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// enter returns the running episode of a session. The first request of a session waits
// until the step has a place for its task. The caller calls leave after its reply.
func (s *Store) enter(ctx context.Context, id, task string) (*episode, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if e := s.episodes[id]; e != nil {
			switch {
			case e.status != running:
				return nil, gone("the episode of session %s has ended: %s; begin another session", id, e.ending())
			case task != "" && task != e.task.ID:
				return nil, serve.Invalid(serve.TaskHeader, "session %s plays task %s, not %s", id, e.task.ID, task)
			}
			e.replying++
			e.touched = time.Now()
			return e, nil
		}
		if e := s.admit(id, task); e != nil {
			e.replying++
			return e, nil
		}
		if s.waiting >= s.o.Waiting {
			return nil, &serve.Error{Status: http.StatusTooManyRequests, Type: "rate_limit_error", Code: "rate_limit_exceeded", RetryAfter: 5 * time.Second,
				Message: fmt.Sprintf("the step has all its episodes, and %d sessions wait for the next one", s.waiting)}
		}
		changed := s.changed
		s.waiting++
		s.mu.Unlock()
		var err error
		select {
		case <-changed:
		case <-ctx.Done():
			err = serve.Unavailable(5*time.Second, "the session was not admitted in time: the step has all its episodes, and the next one has not begun")
		case <-s.ended:
			err = Ended
		}
		s.mu.Lock()
		s.waiting--
		if err != nil {
			return nil, err
		}
	}
}

func (s *Store) leave(e *episode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.replying--
	e.touched = time.Now()
	if e.status != running {
		s.clear(e)
	}
}

// admit gives a new session a place in the step, or returns nil. The caller has locked mu.
func (s *Store) admit(id, task string) *episode {
	if s.step == nil {
		return nil
	}
	if task == "" {
		task = Env
	}
	g, sample := s.step.seat(task)
	if g == nil {
		return nil
	}
	e := &episode{
		id: id, status: running, group: g, sample: sample, touched: time.Now(), began: time.Now(),
		task: data.Task{ID: task, Env: Env, Index: data.NoIndex},
		seed: rollout.EpisodeSeed(s.step.o.Seed, s.step.o.Step, Env, task, g.repeat, sample),
	}
	g.seats[sample] = e
	g.attempts[sample]++
	e.attempt = g.attempts[sample]
	s.step.touched = e.began
	s.episodes[id] = e
	return e
}

// drop ends an episode that is not trained on, and frees its place. The caller has locked mu.
func (s *Store) drop(e *episode, reason string) {
	e.status, e.reason = droppedStatus, reason
	e.group.seats[e.sample] = nil
	s.dropped++
	partial := s.assemble(e, data.Cancelled)
	s.retire(e)
	if st := s.step; st != nil {
		st.touched = time.Now()
		s.observeEnd(st, e, partial)
	}
	s.notify()
}

// remembered bounds the number of ended episodes whose result GET returns.
const remembered = 10000

// retire closes the sessions of an ended episode, and forgets the oldest ended episodes.
func (s *Store) retire(e *episode) {
	s.clear(e)
	if s.old = append(s.old, e.id); len(s.old) > remembered {
		delete(s.episodes, s.old[0])
		s.old = slices.Delete(s.old, 0, 1)
	}
}

// clear frees the memory of an ended episode in the engine and, if no step takes the
// episode, its contexts. Replies in progress keep their session until they call leave.
func (s *Store) clear(e *episode) {
	for _, c := range e.contexts {
		if c.session != nil && !c.busy {
			s.o.Engine.Close(c.session)
			c.session = nil
		}
	}
	if e.status == droppedStatus && e.replying == 0 {
		e.forget()
	}
}

// gone returns the error of a request to an episode that has ended.
func gone(format string, args ...any) *serve.Error {
	return &serve.Error{Status: http.StatusGone, Type: "invalid_request_error", Code: "episode_ended", Final: true, Message: fmt.Sprintf(format, args...)}
}

// Ended is the answer to agents after Close. A client that sends the request again would find
// no server.
var Ended = &serve.Error{Status: http.StatusServiceUnavailable, Type: "server_error", Code: "unavailable", Final: true,
	Message: "the training has ended or was interrupted: it plays no further episodes"}

// errClosed is the error of Collect after Close.
var errClosed = errors.New("the server of the agents has ended")
