package algo

// Asynchronous play: with Play.AsyncSteps = k the episodes of the steps n+1 to n+k are played
// while the update of step n runs. The steps are collected in order by one goroutine.
//
//	staleness of a reply = version of the weights that the update starts from
//	                     - version of the weights that sampled its first token  ≤ k
//
// because the episodes of step s begin after the update of step s-k-1, and an update makes at
// most one version. A reply that is in progress during an optimiser step continues with the new
// weights, so an episode can span versions (data.Turn.Behind). Its recorded log-probs are exact: the
// engine computes the context again with the new weights.
//
// The learner and the engine share the thread of the device and one copy of the weights. Batches
// of the engine run between the micro-batches of a pass, for at most half of the time, and none runs
// during an optimiser step.
//
// The recorded log-probs are the old log-probs of the update, as in AReaL's and verl's asynchronous
// training without a recomputation; with rollout correction the old log-probs are computed again,
// and the correction weights their difference from the recorded ones (decoupled PPO, arXiv:2505.24298).
//
// The state of a run holds the position in the order of tasks after the last trained step, so a
// resumed run plays the steps again that were in progress.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
)

// ahead plays the episodes of later steps in the background.
type ahead struct {
	permits chan struct{} // one for each step that may be played
	steps   chan aheadStep
	stop    context.CancelFunc
	events  *relay
}

// aheadStep is a step whose episodes have been collected.
type aheadStep struct {
	step    int
	batch   Batch
	metrics Metrics
	err     error
}

// playAhead starts to collect the steps from the given step on.
func (p *player) playAhead(ctx context.Context, first int) *ahead {
	ctx, stop := context.WithCancel(ctx)
	a := &ahead{
		permits: make(chan struct{}, p.o.AsyncSteps+1),
		steps:   make(chan aheadStep, p.o.AsyncSteps+1),
		stop:    stop,
		events:  &relay{},
	}
	for range p.o.AsyncSteps {
		a.permits <- struct{}{}
	}
	own := *p.core // the goroutine shares the parts and the options, not the state of the step in training
	own.Events, own.tokens, own.ahead, own.Ranks = a.events, map[string]float64{}, nil, own.Ahead
	background := *p
	background.core = &own
	go a.run(ctx, &background, first)
	return a
}

// run collects the steps in order until the last step, an error or the end of ctx.
func (a *ahead) run(ctx context.Context, p *player, first int) {
	defer close(a.steps)
	for step := first; step <= p.steps; step++ {
		select {
		case <-a.permits:
		case <-ctx.Done():
			return
		}
		s := aheadStep{step: step, metrics: Metrics{}}
		began := time.Now()
		s.batch, s.err = p.collect(ctx, step, s.metrics)
		s.metrics[track.PlaySeconds] = time.Since(began).Seconds()
		drawn := p.order.State()
		s.batch.drawn = &drawn
		a.steps <- s // has room: there are at most as many steps as permits
		if s.err != nil {
			return
		}
	}
}

// takeAhead returns the next collected step and permits another one.
func (p *player) takeAhead(ctx context.Context, step int, m Metrics) (Batch, error) {
	if p.ahead == nil {
		p.ahead = p.playAhead(ctx, step)
	}
	a := p.ahead
	a.permits <- struct{}{}
	var s aheadStep
	gen := Phase{Name: "gen", Step: step, Steps: p.steps, Total: p.o.BatchTasks * p.o.Train.GroupSize}
	err := p.playPhase(gen, m, func() error {
		defer a.events.forward(p.Events)()
		select {
		case s = <-a.steps:
		case <-ctx.Done():
			return ctx.Err()
		}
		if s.step != step && s.err == nil { // the goroutine ended before it played the step
			return cmp.Or(ctx.Err(), errors.New("the episodes of the step were not played"))
		}
		return s.err
	})
	if err != nil {
		return s.batch, err
	}
	waited := m[track.Timing("gen")]
	maps.Copy(m, s.metrics)
	for _, phase := range []string{"gen_max", "reward"} { // they ran during other phases
		delete(m, track.Timing(phase))
	}
	m[track.Timing("gen")] = waited
	return s.batch, p.staleness(s.batch.Rows, m)
}

// staleness reports the staleness of the rows' sampled tokens, which is at most AsyncSteps.
func (p *player) staleness(rows []data.Row, m Metrics) error {
	tokens, total, most := 0, 0.0, int64(0)
	for i := range rows {
		for _, t := range rows[i].Turns {
			n := p.state.WeightVersion - (rows[i].WeightVersion - t.Behind)
			if n < 0 || n > int64(p.o.AsyncSteps) {
				return fmt.Errorf("%s, sample %d: weights of version %d sampled a reply for the update of version %d, but trainer.async_steps is %d",
					rows[i].UID, rows[i].Sample, rows[i].WeightVersion-t.Behind, p.state.WeightVersion, p.o.AsyncSteps)
			}
			tokens += t.End - t.Start
			total += float64(n) * float64(t.End-t.Start)
			most = max(most, n)
		}
	}
	if tokens > 0 {
		m[track.Staleness+"_mean"], m[track.Staleness+"_max"] = total/float64(tokens), float64(most)
	}
	return nil
}

// givingWay is countRows for passes that share the device with the engine: after each micro-batch
// the engine runs its pending batches, for at most as long as the micro-batch took.
func (c *core) givingWay(ctx context.Context) context.Context {
	done, began := 0, time.Now()
	return learner.CountRows(ctx, func(rows int) {
		done += rows
		c.Events.Progress(done, "")
		c.Engine.Yield(ctx, time.Since(began))
		began = time.Now()
	})
}

// stopAhead cancels the episodes that are played ahead and waits for their end.
func (c *core) stopAhead() {
	if c.ahead == nil {
		return
	}
	c.ahead.stop()
	for range c.ahead.steps { // until it is closed
	}
	c.ahead = nil
}

// relay passes the progress of the played episodes on while the loop waits for them. At other times the
// loop reports its own phases.
type relay struct {
	noEvents
	mu     sync.Mutex
	to     Events // nil: the loop does not wait
	phase  string
	played int
	note   string
}

// forward passes the progress on until the returned function is called.
func (r *relay) forward(to Events) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.to = to; r.phase == "gen" && r.played > 0 {
		to.Progress(r.played, r.note)
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.to = nil
	}
}

// Phase implements Events.
func (r *relay) Phase(p Phase) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase, r.played = p.Name, 0
}

// Progress implements Events.
func (r *relay) Progress(n int, note string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.played, r.note = n, note; r.to != nil && r.phase == "gen" {
		r.to.Progress(n, note)
	}
}
