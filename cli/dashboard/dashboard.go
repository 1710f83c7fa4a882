package dashboard

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/algo/report"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/cli/pace"
	"github.com/openmanus/openmanus/env/listen"
)

// sendEvery is the time between two passes of changes to the browsers.
const sendEvery = 250 * time.Millisecond

// closeTimeout bounds the time that the end of the run waits for browsers.
const closeTimeout = 3 * time.Second

// Options configure a dashboard.
type Options struct {
	Addr   string // a result of ParseAddr
	Token  string // needed by every reader; "": a random one, or none on a loopback address
	Made   string // text at the end of the page
	Now    func() time.Time
	Phases map[string]string // labels of phases by name
	// Pieces returns a function that splits the tokens of a file of episodes into texts, or nil
	// if there is no tokenizer. Requests call it concurrently.
	Pieces func(folder, file string) func([]int32) []string
	Log    *slog.Logger // for faults of the dashboard
}

// Dashboard shows a run. Start makes it, Listeners and hooks of the run feed it, and End ends it.
type Dashboard struct {
	episodes
	o       Options
	access  access
	server  *listen.Server
	streams streams
	log     logTail
	quit    chan struct{}
	sending sync.WaitGroup

	// State of the events. A listener of the run only takes mu, which is never held for long.
	mu     sync.Mutex
	phase  phase // guarded by mu
	pace   pace.Steps
	steps  int  // training steps of the run; 0: unknown; guarded by mu
	begun  bool // an event has arrived; guarded by mu
	status bool // the phase has changed since the last pass; guarded by mu
	grown  bool // the run folder may have changed since the last pass; guarded by mu
	forget bool // the metrics are to be read from their beginning; guarded by mu

	reading sync.Mutex
	run     *report.Run // nil before the run folder is open; guarded by reading
	records int         // lines of the log that were passed on; guarded by reading
}

// phase is the current phase as a message.
type phase struct {
	Name    string  `json:"name"`
	Label   string  `json:"label"`
	Of      string  `json:"of"`
	Step    int     `json:"step"`
	Steps   int     `json:"steps"`
	N       int     `json:"n"`
	Total   int     `json:"total"`
	Note    string  `json:"note"`
	Seconds float64 `json:"seconds"`  // since the phase began
	Prior   float64 `json:"prior"`    // duration of the previous phase of this kind; 0: unknown
	Left    float64 `json:"left"`     // estimate of the remaining time of the phase; 0: unknown
	RunLeft float64 `json:"run_left"` // estimate of the remaining time of the run; -1: unknown
	AtLeast bool    `json:"at_least"` // RunLeft is a lower bound
	Tokens  int     `json:"tokens"`   // sampled in this phase; -1: it samples none

	began   time.Time
	eta     pace.Estimate
	sampled func() int
}

var (
	_ algo.Events      = (*Dashboard)(nil)
	_ rollout.Observer = (*Dashboard)(nil)
)

// Start listens at the address. If the port of DefaultAddr is in use, it takes a free one.
func Start(ctx context.Context, o Options) (*Dashboard, error) {
	if o.Token == "" && !local(o.Addr) {
		o.Token = newToken()
	}
	d := &Dashboard{o: o, access: access{o.Token}, episodes: episodes{now: o.Now}, quit: make(chan struct{})}
	d.phase = phase{Label: "starting", began: o.Now()}
	var err error
	d.server, err = listen.Serve(ctx, "dashboard", o.Addr, d.Handler(), o.Log)
	if o.Addr == DefaultAddr && errors.Is(err, syscall.EADDRINUSE) {
		d.server, err = listen.Serve(ctx, "dashboard", "127.0.0.1:0", d.Handler(), o.Log)
	}
	if err != nil {
		return nil, err
	}
	d.sending.Go(d.pump)
	return d, nil
}

// URL returns the address to open, with the token if there is one.
func (d *Dashboard) URL() string { return d.access.shownURL(d.server.URL) }

// LogHandler returns a handler that shows the log, from the level info on.
func (d *Dashboard) LogHandler() slog.Handler {
	return slog.NewTextHandler(&d.log, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.String(slog.TimeKey, a.Value.Time().Format(time.TimeOnly))
		}
		return a
	}})
}

// Opened sets the run folder. It has the form of run.Host.Opened.
func (d *Dashboard) Opened(folder *rundir.Folder) {
	run, err := report.Open(folder.Dir)
	if err == nil {
		err = d.pace.Load(folder.Metrics())
	}
	if err != nil {
		d.o.Log.Warn("the dashboard cannot read the run folder", "error", err)
		return
	}
	d.reading.Lock()
	d.run = run
	d.reading.Unlock()
	d.mu.Lock()
	d.status, d.grown = true, true
	d.mu.Unlock()
}

// event records that the run goes on. Before its first event a resumed run cuts the metrics to its
// checkpoint. The caller holds mu.
func (d *Dashboard) event() {
	if !d.begun {
		d.begun, d.forget = true, true
	}
	d.status = true
}

// Phase records the start of a phase.
func (d *Dashboard) Phase(p algo.Phase) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.event()
	d.grown = true // the previous phase may have written a line of metrics
	now := d.o.Now()
	steady := p.Name == algo.PhaseSFT || p.Name == string(track.PhaseRead) // the steps of supervised training form one phase
	label, ok := d.o.Phases[p.Name]
	if !ok {
		label = p.Name
	}
	if steady {
		if d.phase.Name != p.Name {
			d.pace.EndPhase(now)
			d.phase = phase{Name: p.Name, Label: label, Total: p.Steps, began: now}
			d.phase.eta = pace.Estimate{Began: now, From: d.phase.share(p.Step - 1)}
		}
		d.phase.N = p.Step - 1
		return
	}
	d.phase = phase{Name: p.Name, Label: label, Of: p.Of, Step: p.Step, Steps: p.Steps, Total: p.Total, began: now, sampled: p.Sampled}
	prior := d.pace.Phase(now, p)
	d.phase.Prior, d.phase.eta = prior.Seconds(), pace.Estimate{Began: now, Prior: prior}
	if p.Step > 0 {
		d.steps = p.Steps
	}
}

// share returns the share of the phase that is done after n units.
func (p *phase) share(n int) float64 { return float64(n) / float64(max(1, p.Total)) }

// Progress records the progress of the phase.
func (d *Dashboard) Progress(n int, note string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.event()
	if d.phase.Step > 0 || d.phase.Of != "" { // within a supervised step there is nothing to count
		d.phase.N, d.phase.Note = n, note
	}
}

// Step records the end of a step.
func (d *Dashboard) Step(step, steps int, m algo.Metrics) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.event()
	if m[track.SFTStep] == 0 && m[track.ReadStep] == 0 {
		d.pace.End(d.o.Now(), step, steps)
	}
	d.grown = true
}

// Validated does nothing: a validation is shown when its line of metrics is written.
func (d *Dashboard) Validated(rundir.Validation) {}

// pump passes changes to the browsers until End.
func (d *Dashboard) pump() {
	t := time.NewTicker(sendEvery)
	defer t.Stop()
	for {
		select {
		case <-d.quit:
			return
		case <-t.C:
			if !d.streams.empty() {
				d.pass()
			}
		}
	}
}

// End shows the end of the run in the browsers and stops the server. The run folder is closed.
func (d *Dashboard) End() error {
	close(d.quit)
	d.sending.Wait()
	d.mu.Lock()
	d.grown = true
	d.mu.Unlock()
	d.pass()
	d.streams.send(d.ending())
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	d.streams.end(ctx)
	return d.server.Close(ctx)
}
