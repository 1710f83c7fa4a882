package pool

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
)

// Options configures a Pool. The zero value is usable.
type Options struct {
	// Client configures the clients of the instances. BaseURL, Record, Observe and
	// Gate are ignored.
	Client env.Options
	// MaxPerServer limits the leases on one server; 0: Spec.MaxInstances. If a server has a
	// fixed number of instances and all are in use, /create returns one of them again.
	MaxPerServer int
	// MaxRequests limits the requests in progress to one server; 0: one for
	// environments with Spec.OneAtATime, otherwise no limit.
	MaxRequests int
	// QuarantineAfter is the number of failed requests or failed creations in a row
	// after which a server is taken out of service even though it answers its
	// greeting; 0: DefaultQuarantineAfter. A server that does not answer its greeting
	// is taken out after the first failures (see health).
	QuarantineAfter int
	// WaitHealthy is the time that Acquire waits while every server is down; 0: 2
	// minutes.
	WaitHealthy time.Duration
	// ProbePause is the pause before the second probe of a server that is down; 0:
	// 250 ms. It doubles with each probe up to ProbeMax; 0: 30 s.
	ProbePause, ProbeMax time.Duration
	Log                  *slog.Logger // nil: no log
}

const (
	// DefaultQuarantineAfter is the default of Options.QuarantineAfter. A server
	// on which a fifth of all requests fail at random has a run of 10 failures
	// about once in ten million requests.
	DefaultQuarantineAfter = 10

	defaultWaitHealthy = 2 * time.Minute
	defaultProbePause  = 250 * time.Millisecond
	defaultProbeMax    = 30 * time.Second
	// closeTimeout limits Client.Close with all its attempts. It is longer than the
	// limit of one attempt, so that each failed attempt is counted under its name.
	closeTimeout = 30 * time.Second
)

// Pool leases environment instances on several servers of one environment.
type Pool struct {
	spec env.Spec
	o    Options
	log  *slog.Logger

	// life is the context of the probes, which run in the background. Close cancels life.
	life context.Context
	stop context.CancelFunc

	mu      sync.Mutex
	servers []*server       // the slice is fixed; the servers are guarded by mu
	changed chan struct{}   // closed and replaced when Acquire may succeed; guarded by mu
	closed  bool            // guarded by mu
	jobs    int             // goroutines of the pool; guarded by mu
	counts  Counts          // guarded by mu
	warned  map[string]bool // keys of WarnOnce; guarded by mu
}

// server is one server. Its fields are guarded by Pool.mu unless stated otherwise.
type server struct {
	url  string // address with credentials
	name string // address without credentials
	root string // the address of the greeting
	// starts counts the known restarts. It is only written with mu held.
	starts atomic.Int64
	// identified is the value of starts, plus 1, when the server was last identified;
	// 0: the server was never identified.
	identified atomic.Int64
	// gate limits the requests in progress; nil: no limit. mu does not guard it.
	gate chan struct{}

	health
	live      int              // leases in use or being created
	free      []*slot          // instances without a lease
	held      map[string]*slot // all instances by id
	made      int              // number of instances created so far
	era       int              // number of quarantines and restarts; instances of earlier eras are not reused
	lastErr   error
	downSince time.Time // when the server was last taken out of service
	greeting  string    // the last greeting, "" before the first
}

// slot is one instance, leased or free.
type slot struct {
	client env.Client
	id     string // the instance's id on the server, "" if unknown
	era    int    // era of the server when the instance was created
	number int    // number of the instance on its server, from 1

	// Only the holder of the lease uses these fields.
	record  env.Recorder
	early   []data.Exchange // exchanges of the creation that are not recorded yet
	created []data.Exchange // exchanges of the creation
	served  bool            // the instance had an earlier lease
	task    int             // task of the last reset
}

// New returns a pool over the servers at urls, which must be empty for an environment
// with Spec.Prompts. It sends no requests.
func New(spec env.Spec, urls []string, o Options) (*Pool, error) {
	if len(urls) == 0 && !spec.Prompts {
		return nil, fmt.Errorf("environment %s: no server address given", spec.Name)
	}
	o.WaitHealthy = cmp.Or(o.WaitHealthy, defaultWaitHealthy)
	o.ProbePause = cmp.Or(o.ProbePause, defaultProbePause)
	o.ProbeMax = cmp.Or(o.ProbeMax, defaultProbeMax)
	o.QuarantineAfter = cmp.Or(o.QuarantineAfter, DefaultQuarantineAfter)
	o.MaxPerServer = cmp.Or(o.MaxPerServer, spec.MaxInstances)
	if o.MaxRequests == 0 && spec.OneAtATime {
		o.MaxRequests = 1
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if err := o.Client.Validate(spec); err != nil {
		return nil, fmt.Errorf("environment %s: %w", spec.Name, err)
	}
	p := &Pool{spec: spec, o: o, log: o.Log, changed: make(chan struct{}), counts: Counts{Faults: map[string]int64{}}, warned: map[string]bool{}}
	if spec.Prompts { // the instances live in this process
		p.servers = []*server{{held: map[string]*slot{}, health: health{limit: o.QuarantineAfter}}}
	}
	for _, u := range urls {
		base, err := env.BaseURL(u, spec.PathSuffix)
		if err != nil {
			return nil, fmt.Errorf("environment %s: %w", spec.Name, err)
		}
		if p.server(base) != nil {
			return nil, fmt.Errorf("environment %s: server %s is listed twice", spec.Name, base)
		}
		s := &server{url: base, name: env.WithoutUser(base), root: env.RootURL(base, spec.PathSuffix), held: map[string]*slot{}, health: health{limit: o.QuarantineAfter}}
		if o.MaxRequests > 0 {
			s.gate = make(chan struct{}, o.MaxRequests)
		}
		p.servers = append(p.servers, s)
	}
	p.life, p.stop = context.WithCancel(context.Background())
	return p, nil
}

// server returns the server whose address New received as url, or nil if New received no
// such address.
func (p *Pool) server(url string) *server {
	base, err := env.BaseURL(url, p.spec.PathSuffix)
	if err != nil {
		return nil
	}
	for _, s := range p.servers {
		if s.url == base {
			return s
		}
	}
	return nil
}

// MaxLeases returns the largest number of leases at the same time, 0 for no limit.
func (p *Pool) MaxLeases() int { return len(p.servers) * p.o.MaxPerServer }

// InService lists the servers that are in service.
func (p *Pool) InService() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	for _, s := range p.servers {
		if !s.down {
			names = append(names, s.name)
		}
	}
	return names
}

// String lists the servers, for logs.
func (p *Pool) String() string {
	names := make([]string, len(p.servers))
	for i, s := range p.servers {
		names[i] = s.name
	}
	return p.spec.Name + " at " + strings.Join(names, ", ")
}

// WarnOnce logs message as a warning on the first call with key. Later calls with
// the key do nothing.
func (p *Pool) WarnOnce(key, message string, args ...any) {
	p.mu.Lock()
	again := p.warned[key]
	p.warned[key] = true
	p.mu.Unlock()
	if !again {
		p.log.Warn(message, append([]any{"env", p.spec.Name}, args...)...)
	}
}

// Close ends the probes, closes all free instances, and waits for the pool's
// goroutines until ctx ends. The instances of remaining leases are closed by Release.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		p.stop()
		p.notify()
		for _, s := range p.servers {
			p.discardFree(s)
		}
	}
	for p.jobs > 0 {
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("environment %s: close the instances: %w", p.spec.Name, context.Cause(ctx))
		}
		p.mu.Lock()
	}
	p.mu.Unlock()
	return nil
}

// notify wakes every waiting Acquire. The caller must hold mu.
func (p *Pool) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// spawn runs job in a goroutine that Close waits for. The caller must hold mu.
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
