package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openmanus/openmanus/env"
)

// Options configures a Pool. The zero value is usable.
type Options struct {
	// Client is how instances are created; its BaseURL and Record are ignored
	// (see Lease.Record).
	Client env.Options
	// MaxPerServer bounds the live leases of one server; 0 is the bound of the
	// environment (Spec.MaxInstances), if it has one. Some servers hold a fixed
	// number of instances and then hand one out twice.
	MaxPerServer int
	// MaxRequests bounds the requests one server is sent at a time; 0 is the
	// bound of the environment (Spec.OneAtATime), if it has one.
	MaxRequests int
	// QuarantineAfter is how many failed exchanges, or failed creations, in a row
	// take a server out of service though it answers its greeting,
	// DefaultQuarantineAfter if 0. One that does not answer it is taken out as
	// soon as it is asked, after the first failures (health).
	QuarantineAfter int
	// WaitHealthy is how long Acquire waits while every server is down, two
	// minutes if 0.
	WaitHealthy time.Duration
	// ProbePause is the pause before the second probe of a server that is
	// down, doubling up to ProbeMax. 250 ms and 30 s if 0.
	ProbePause, ProbeMax time.Duration
	Log                  *slog.Logger // nil: silent
}

// The limits where PoolOptions leaves them open.
const (
	// DefaultQuarantineAfter is a row that a server which fails a fifth of all
	// requests at random has about once in ten million.
	DefaultQuarantineAfter = 10

	defaultWaitHealthy = 2 * time.Minute
	defaultProbePause  = 250 * time.Millisecond
	defaultProbeMax    = 30 * time.Second
	// giveBackTimeout bounds a call of Close with all its attempts; one of them
	// ends by its own limit, so that it is counted as what it is.
	giveBackTimeout = 30 * time.Second
)

// ErrFull is returned under Place.NoWait when every place on the servers in service
// is taken.
var ErrFull = errors.New("every instance that the environment servers in service can hold is in use")

// ErrClosed is returned by Acquire after Close.
var ErrClosed = errors.New("the pool of environment servers is closed")

// Pool leases environment instances on several servers of one environment. It
// gives each lease to the server with the fewest, keeps instances for the
// next lease (Reset makes them new), and leaves alone a server that fails
// until it answers again. It is safe for use by many goroutines.
type Pool struct {
	spec env.Spec
	o    Options
	log  *slog.Logger

	// life ends with Close; the probes, which no caller waits for, run under it.
	life context.Context
	stop context.CancelFunc

	mu      sync.Mutex
	servers []*server       // the slice is fixed; the servers are guarded by mu
	changed chan struct{}   // closed and replaced whenever Acquire might find more; guarded by mu
	closed  bool            // guarded by mu
	jobs    int             // the pool's own goroutines; guarded by mu
	counts  Counts          // guarded by mu
	warned  map[string]bool // by WarnOnce's about; guarded by mu
}

// server is one server. Its mutable fields are guarded by Pool.mu unless they say otherwise.
type server struct {
	url  string // as the client wants it
	name string // url without the credentials in it
	root string // where the probe asks
	// starts counts the restarts that were told of or noticed; changed under mu.
	starts atomic.Int64
	// identified is 1 more than what starts was when the server was last asked
	// whether it is of this environment, 0 before.
	identified atomic.Int64
	// gate bounds the requests under way; nil: there is no bound. Not guarded.
	gate chan struct{}

	health
	live    int              // leases out, or being created
	free    []*slot          // instances waiting for a lease
	held    map[string]*slot // instances in leases and waiting, by the server's id
	made    int              // instances that were held so far
	era     int              // counts quarantines: an instance of an older era is not used again
	lastErr error
	// downSince is when the server was last taken out of service.
	downSince time.Time
	greeting  string // the last one, "" before the first
}

// slot is one instance, in a lease or in the free list.
type slot struct {
	client env.Client
	id     string // the server's, "" where the client does not tell
	era    int
	born   int // which instance of its server it is, from 1
	// What follows is used by the goroutine that has the lease.
	record  env.Recorder
	early   []exchange // of its creation, not recorded yet
	created []exchange // of its creation
	served  bool       // an earlier lease
	task    int        // of the last reset
}

// New makes a pool over the servers at urls. It makes no request yet.
func New(spec env.Spec, urls []string, o Options) (*Pool, error) {
	if len(urls) == 0 {
		return nil, fmt.Errorf("environment %s: no server address given", spec.Name)
	}
	if o.WaitHealthy <= 0 {
		o.WaitHealthy = defaultWaitHealthy
	}
	if o.ProbePause <= 0 {
		o.ProbePause = defaultProbePause
	}
	if o.ProbeMax <= 0 {
		o.ProbeMax = defaultProbeMax
	}
	if o.QuarantineAfter <= 0 {
		o.QuarantineAfter = DefaultQuarantineAfter
	}
	if o.MaxPerServer <= 0 {
		o.MaxPerServer = spec.MaxInstances
	}
	if o.MaxRequests <= 0 && spec.OneAtATime {
		o.MaxRequests = 1
	}
	if err := o.Client.Validate(spec); err != nil {
		return nil, fmt.Errorf("environment %s: %w", spec.Name, err)
	}
	p := &Pool{spec: spec, o: o, log: o.Log, changed: make(chan struct{}), counts: Counts{Faults: map[string]int64{}}, warned: map[string]bool{}}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	seen := map[string]bool{}
	for _, u := range urls {
		base, err := env.BaseURL(u, spec.PathSuffix)
		if err != nil {
			return nil, fmt.Errorf("environment %s: %w", spec.Name, err)
		}
		if seen[base] {
			return nil, fmt.Errorf("environment %s: server %s is listed twice", spec.Name, base)
		}
		seen[base] = true
		s := &server{url: base, name: env.WithoutUser(base), root: env.RootURL(base, spec.PathSuffix), held: map[string]*slot{}, health: health{limit: o.QuarantineAfter}}
		if o.MaxRequests > 0 {
			s.gate = make(chan struct{}, o.MaxRequests)
		}
		p.servers = append(p.servers, s)
	}
	p.life, p.stop = context.WithCancel(context.Background())
	return p, nil
}

// Acquire leases an instance, creating one where none is free. It passes over
// servers that fail; it fails itself if a server refuses the request for
// another reason than being ill, with a DownError if every server stays down
// for PoolOptions.WaitHealthy, or if ctx ends.
func (p *Pool) Acquire(ctx context.Context) (*Lease, error) { return p.AcquireAt(ctx, Place{}) }

// AcquireAt is Acquire on the servers that at describes. If its only server has
// been down for PoolOptions.WaitHealthy while others are in service, the error is
// a ServerDownError. That time counts from when the server was taken out of
// service: episodes that come one after the other do not each wait as long.
func (p *Pool) AcquireAt(ctx context.Context, at Place) (*Lease, error) {
	if at.Only != "" && !p.has(at.Only) {
		return nil, fmt.Errorf("environment %s: %s is not one of the servers (%s)", p.spec.Name, at.Only, p)
	}
	var downSince time.Time
	for {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		s, sl, changed, asking, err := p.pick(at)
		if err != nil {
			return nil, err
		}
		if s != nil {
			if sl == nil {
				if sl, err = p.create(ctx, s); err != nil {
					return nil, err
				}
			}
			if sl != nil {
				return &Lease{pool: p, server: s, slot: sl}, nil
			}
			continue
		}
		limit := time.Duration(1<<63 - 1)
		if since, others, down := p.down(at); down != nil {
			if downSince.IsZero() {
				downSince = time.Now()
			}
			if !others {
				since = downSince
			}
			if limit = p.o.WaitHealthy - time.Since(since); limit <= 0 {
				if others {
					return nil, &ServerDownError{Env: p.spec.Name, Server: at.Only, Waited: p.o.WaitHealthy, Err: down}
				}
				return nil, &DownError{Env: p.spec.Name, Waited: p.o.WaitHealthy, Err: down}
			}
		} else if !asking {
			if at.NoWait {
				return nil, ErrFull
			}
			downSince = time.Time{}
		}
		t := time.NewTimer(limit)
		select {
		case <-changed:
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
	}
}

// MaxLeases is how many leases can be out at once, 0 where nothing bounds them.
func (p *Pool) MaxLeases() int { return len(p.servers) * p.o.MaxPerServer }

// pick claims a place on the least loaded server that at allows, with a free
// instance if that has one. One that is being asked whether it is there comes after the
// others, and has no places but on free instances. Without a place it gives
// the channel to wait on; asking says that one may be found very soon.
func (p *Pool) pick(at Place) (best *server, sl *slot, changed <-chan struct{}, asking bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, nil, false, ErrClosed
	}
	for _, s := range p.servers {
		if !at.allows(s) || s.down || p.o.MaxPerServer > 0 && s.live >= p.o.MaxPerServer {
			continue
		}
		if s.asking && len(s.free) == 0 {
			asking = true
			continue
		}
		if best == nil || at.prefers(s, best) {
			best = s
		}
	}
	if best == nil {
		return nil, nil, p.changed, asking, nil
	}
	best.live++
	if n := len(best.free); n > 0 {
		sl = best.free[n-1]
		best.free = best.free[:n-1]
	}
	return best, sl, nil, false, nil
}

// create makes an instance on s, whose place pick has claimed. No slot and no
// error means that s failed, and pick should be asked again.
func (p *Pool) create(ctx context.Context, s *server) (*slot, error) {
	sl := &slot{}
	o := p.o.Client
	o.BaseURL, o.Record = s.url, sl.keep
	o.Gate = s.gate
	o.Observe = func(x env.Attempt) bool { return p.watch(s, sl, x) }
	var err error
	for range max(p.o.MaxPerServer, leastCreates) {
		p.mu.Lock()
		sl.era = s.era
		before, b := s.made, p.bound(s)
		p.mu.Unlock()
		bound := *p.o.Client.HTTPClient()
		bound.Transport = b
		o.Client = &bound
		var client env.Client
		if client, err = p.spec.New(ctx, o); err != nil {
			break
		}
		if p.hold(s, sl, client, b, before) {
			if err := p.identify(ctx, s, client); err != nil {
				(&Lease{pool: p, server: s, slot: sl}).Fail(err)
				return nil, err
			}
			return sl, nil
		}
		// Somebody plays on it: it is neither used nor given back.
		if err = error(&SharedError{Env: p.spec.Name, Server: s.url}); b.lost() {
			err = env.ErrRestarted
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.live--
	p.notify()
	switch {
	case errors.Is(err, env.ErrRestarted): // it was in the middle of it: that says nothing of the new one
	case env.ServerFault(err):
		p.heed(s, s.uncreated(), err)
	default:
		return nil, err
	}
	return nil, nil
}

// leastCreates is how often at least a create is tried that is answered with
// instances which are in use.
const leastCreates = 8

// hold takes an instance for sl, unless it is one that another slot has, or was
// created while the server was started again. before is how many instances the
// server had made when it was asked for this one.
func (p *Pool) hold(s *server, sl *slot, client env.Client, b *boundTransport, before int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b.lost() {
		return false // nobody knows by which process
	}
	if known, ok := client.(interface{ ServerID() string }); ok {
		id := known.ServerID()
		if other := s.held[id]; other != nil {
			if !p.reborn(other, before) {
				return false
			}
			p.log.Warn("environment server gave out an id that is in use: it must have been started again, and the instances of before are lost",
				"server", s.url, "id", id)
			p.lose(s)
			sl.era = s.era
			b.start.Store(s.starts.Load()) // this one is of the new process
		}
		sl.id = id
		s.held[id] = sl
	}
	s.made++
	sl.client, sl.born = client, s.made
	s.created()
	p.counts.Instances++
	return true
}

// reborn reports whether a server must have been started again that gives out
// the id of other. One that can be full hands its instances out again in turn,
// and one that counts its ids without a lock gives the same to creates that
// arrive together.
func (p *Pool) reborn(other *slot, before int) bool {
	return p.spec.MaxInstances == 0 && other.born <= before
}

// SharedError says that a server gives out no instance but those that are in
// use already.
type SharedError struct{ Env, Server string }

// Error says what to change.
func (e *SharedError) Error() string {
	return fmt.Sprintf("environment %s: %s hands out instances that are in use: it holds fewer than env.max_instances says, or another program plays on it", e.Env, e.Server)
}

// down returns the time when the last of the servers that at allows was taken
// out of service, and their last failures, or nil if one of them is in service.
// others reports whether a server that at does not allow is in service; if none
// is, the failures are those of all servers.
func (p *Pool) down(at Place) (since time.Time, others bool, failures error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var allowed, rest []error
	for _, s := range p.servers {
		switch {
		case !s.down && at.allows(s):
			return time.Time{}, false, nil
		case !s.down:
			others = true
		case at.allows(s):
			allowed = append(allowed, s.lastErr)
			if s.downSince.After(since) {
				since = s.downSince
			}
		default:
			rest = append(rest, s.lastErr)
		}
	}
	if !others {
		allowed = append(allowed, rest...)
	}
	return since, others, errors.Join(allowed...)
}

// allDown returns the last failures of all servers if every one is out of
// service, else nil.
func (p *Pool) allDown() error {
	_, _, failures := p.down(Place{})
	return failures
}

// notify wakes every waiting Acquire. The caller holds mu.
func (p *Pool) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Close ends the probes, gives all free instances back, and waits for the
// pool's goroutines until ctx ends. A lease still out is given back by its
// own Release.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		p.stop()
		p.notify()
		for _, s := range p.servers {
			for _, sl := range s.free {
				p.giveBack(s, sl)
			}
			s.free = nil
		}
	}
	for p.jobs > 0 {
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("environment %s: giving instances back: %w", p.spec.Name, context.Cause(ctx))
		}
		p.mu.Lock()
	}
	p.mu.Unlock()
	return nil
}

// spawn runs job in a goroutine that Close waits for. The caller holds mu.
func (p *Pool) spawn(job func()) {
	p.jobs++
	go func() {
		defer func() {
			p.mu.Lock()
			p.jobs--
			p.notify()
			p.mu.Unlock()
		}()
		job()
	}()
}

// String lists the servers, for logs.
func (p *Pool) String() string {
	names := make([]string, len(p.servers))
	for i, s := range p.servers {
		names[i] = s.name
	}
	return p.spec.Name + " at " + strings.Join(names, ", ")
}
