package algo

import (
	"context"
	"fmt"
	"time"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
)

// core holds the parts and the state of a run, which the loop and its method share, and
// runs the phases of a step, which are timed and reported.
type core struct {
	Parts
	o       Options
	state   rundir.State
	steps   int         // number of training steps of the run
	heldOut *SFTOptions // options with the ValRows whose loss a validation reports; nil: none
	unsaved bool        // the state has changed since the last checkpoint
	// elsewhere is the work of the engines of other ranks.
	elsewhere engine.Stats
	tokens    map[string]float64 // number of tokens in all passes of a phase of the step, by phase
	published int64              // version of the weights that the workers have
	ahead     *ahead             // plays the episodes of later steps; nil: no steps are played ahead
}

// phase runs f as a phase of a step with the given name and total of units; see runPhase.
func (c *core) phase(step int, name string, total int, m Metrics, f func() error) error {
	return c.runPhase(Phase{Name: name, Step: step, Steps: c.steps, Total: total}, m, f)
}

// runPhase runs f as the phase p and adds its seconds to the metrics.
func (c *core) runPhase(p Phase, m Metrics, f func() error) error {
	c.Events.Phase(p)
	began := time.Now()
	err := f()
	m[track.Timing(p.Name)] += time.Since(began).Seconds()
	return err
}

// playPhase runs f as the phase p, which plays episodes.
func (c *core) playPhase(p Phase, m Metrics, f func() error) error {
	before := c.Engine.Stats().SampledTokens
	p.Sampled = func() int { return int(c.Engine.Stats().SampledTokens - before) }
	return c.runPhase(p, m, f)
}

// playProgress reports the progress of a phase that plays episodes.
func (c *core) playProgress(p rollout.Progress) {
	c.Events.Progress(p.Done, fmt.Sprintf("%d solved", p.Success))
}

// passes runs f as a phase that passes the rows through a model the given number of times.
// It counts the tokens for the throughput of the phase. The engine runs no batch during the phase, except
// with AsyncSteps, which runs batches between the micro-batches.
func (c *core) passes(ctx context.Context, step int, name string, rows []data.Row, times int, m Metrics, f func(ctx context.Context) error) error {
	for i := range rows {
		c.tokens[name] += float64(times * len(rows[i].Tokens))
	}
	if c.o.AsyncSteps > 0 {
		return c.phase(step, name, times*len(rows), m, func() error { return f(c.givingWay(ctx)) })
	}
	return c.exclusive(ctx, func() error {
		return c.phase(step, name, times*len(rows), m, func() error { return f(countRows(ctx, c.Events)) })
	})
}

// optimizerSteps counts the steps of the actor's and the critic's optimisers.
func (c *core) optimizerSteps() int {
	n := c.Actor.OptimizerSteps()
	if c.Critic != nil {
		n += c.Critic.OptimizerSteps()
	}
	return n
}

// keepBadSteps records the consecutive bad steps in the state, so that a resumed
// run continues to count them.
func (c *core) keepBadSteps() {
	c.state.BadSteps = c.Actor.BadSteps()
	if c.Critic != nil {
		c.state.CriticBadSteps = c.Critic.BadSteps()
	}
}

// newWeights counts a new version of the weights and makes the sampler drop its caches.
func (c *core) newWeights() {
	c.keepBadSteps()
	c.state.WeightVersion++
	c.unsaved = true
	if c.Updated != nil {
		c.Updated(c.state.WeightVersion)
	}
}

func (c *core) warnOfSkipped(step, skipped, done int) {
	c.Log.Warn("optimiser steps were skipped: a loss or a gradient was not finite", "step", step, "skipped", skipped,
		"of", skipped+done, "batches", c.Run.BadSteps())
}

// actorCost returns the cost of the actor's passes.
func (c *core) actorCost() learner.Cost {
	m := c.Actor.Compute()
	return learner.CostOf(m, m.Config.VocabSize)
}

// utilization reports the share of the device's peak that a phase reached. It does
// nothing if the peak is unknown.
func (c *core) utilization(m Metrics, of, phase string, flops float64) {
	_, devices := c.Ranks.Player()
	if of != "rollout" {
		devices = c.Ranks.Size() - c.Ranks.Workers()
	}
	if s := m[track.Timing(phase)]; c.o.PeakFLOPS > 0 && s > 0 && flops > 0 {
		m[track.Utilization+"/"+of] = flops / s / (c.o.PeakFLOPS * float64(devices))
	}
}
