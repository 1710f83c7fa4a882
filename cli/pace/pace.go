// Package pace estimates the remaining time of a training run. It reads no clock: callers pass the time.
package pace

import (
	"sync"
	"time"
)

// Steps estimates the time of future steps from the time of past steps. Its methods may be called
// concurrently.
type Steps struct {
	mu    sync.Mutex // guards all fields
	began time.Time  // start of the current or the next step
	step  int        // current step; 0: none
	took  []time.Duration
	done  int // finished steps of the run
	steps int // all steps of the run
}

// recent is the number of recent steps in the estimate. It is small, since
// episodes get shorter or longer during training.
const recent = 8

// Begin records the start of a phase of a step. The first phase starts the step. A phase of a finished step, such as saving a
// checkpoint, counts as part of the next step.
func (p *Steps) Begin(now time.Time, step, steps int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.step == step || step <= p.done {
		return
	}
	p.step, p.done, p.steps = step, step-1, steps
	if p.began.IsZero() || len(p.took) == 0 {
		p.began = now
	}
}

// End records the end of a step. Work before the next step counts as part of the next step.
func (p *Steps) End(now time.Time, step, steps int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done, p.steps = step, steps; p.step != step { // the step began in an earlier process
		return
	}
	p.took = append(p.took, now.Sub(p.began))
	p.took = p.took[max(0, len(p.took)-recent):]
	p.began, p.step = now, 0
}

// Left estimates the time until the last step ends. ok is false before the first step has ended.
func (p *Steps) Left(now time.Time) (left time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.took) == 0 {
		return 0, false
	}
	sum := time.Duration(0)
	for _, d := range p.took {
		sum += d
	}
	mean := sum / time.Duration(len(p.took))
	steps := time.Duration(p.steps - p.done)
	return max(0, steps*mean-min(mean, now.Sub(p.began))), steps > 0
}
