// Package pace estimates the remaining time of a training run and of its phases. It reads no clock: callers pass the time.
package pace

import (
	"errors"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/algo/track"
)

// Steps estimates the time of future steps and phases from the time of past ones. Its methods may be called
// concurrently.
type Steps struct {
	mu    sync.Mutex // guards all fields
	began time.Time  // start of the current or the next step
	ended time.Time  // end of the last phase that ended in the current step
	step  int        // current step; 0: none
	took  []time.Duration
	done  int // finished steps of the run
	steps int // all steps of the run

	phase      algo.Phase // current phase
	phaseBegan time.Time
	phaseTook  map[string]time.Duration // duration of the last phase of each kind
	played     algo.Phase               // last phase that played episodes
	playedIn   time.Duration            // duration of that phase
}

// recent is the number of recent steps in the estimate. It is small, since
// episodes get shorter or longer during training.
const recent = 8

// kind names the phases whose durations are alike.
func kind(p algo.Phase) string {
	env, _, _ := strings.Cut(p.Of, " ")
	return p.Name + " " + env
}

// Load reads the times of steps and phases that earlier processes have written to metrics.jsonl, if the file exists.
func (p *Steps) Load(metrics string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := track.Read(metrics, func(l track.Line) error {
		if _, whole := l.Metrics[track.TimingStep]; !whole || l.Phase != track.PhaseTrain {
			return nil
		}
		for name, seconds := range l.Metrics {
			took := time.Duration(seconds * float64(time.Second))
			if phase, ok := strings.CutPrefix(name, track.TimingSeconds+"/"); name == track.TimingStep {
				p.add(took)
			} else if ok {
				p.note(algo.Phase{Name: phase}, took)
			}
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// add adds the time of a step.
func (p *Steps) add(took time.Duration) {
	p.took = append(p.took, took)
	p.took = p.took[max(0, len(p.took)-recent):]
}

// note records the time of a phase.
func (p *Steps) note(phase algo.Phase, took time.Duration) {
	if p.phaseTook == nil {
		p.phaseTook = map[string]time.Duration{}
	}
	p.phaseTook[kind(phase)] = took
	if phase.Sampled != nil && phase.Total > 0 {
		p.played, p.playedIn = phase, took
	}
}

// Phase records the start of a phase and the end of the current one. The first phase of a step starts the step. A phase of a
// finished step, such as saving a checkpoint, counts as part of the next step. Supervised phases are not recorded. The result is
// the time that the phase takes if it is like the last one of its kind, or else at the pace of the last played episodes; 0:
// unknown.
func (p *Steps) Phase(now time.Time, phase algo.Phase) (prior time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endPhase(now)
	p.phase, p.phaseBegan = phase, now
	if p.step != phase.Step && phase.Step > p.done {
		p.step, p.done, p.steps, p.ended = phase.Step, phase.Step-1, phase.Steps, time.Time{}
		if p.began.IsZero() || len(p.took) == 0 {
			p.began = now
		}
	}
	prior = p.phaseTook[kind(phase)]
	if prior == 0 && phase.Sampled != nil && 2*p.played.Total >= phase.Total { // fewer episodes are not played at the same pace
		prior = p.playedIn * time.Duration(phase.Total) / time.Duration(max(1, p.played.Total))
	}
	return prior
}

// EndPhase records the end of the current phase.
func (p *Steps) EndPhase(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endPhase(now)
}

func (p *Steps) endPhase(now time.Time) {
	if p.phase.Name != "" {
		p.note(p.phase, now.Sub(p.phaseBegan))
		p.phase, p.ended = algo.Phase{}, now
	}
}

// End records the end of a step. Work before the next step counts as part of the next step.
func (p *Steps) End(now time.Time, step, steps int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endPhase(now)
	if p.done, p.steps = step, steps; p.step != step { // the step began in an earlier process
		return
	}
	p.add(now.Sub(p.began))
	p.began, p.step = now, 0
}

// Left estimates the time until the last step ends. The current phase takes the time phaseLeft longer, 0 if that is unknown; the
// result is at least phaseLeft. In the first step the result is a lower bound, because later phases of the step are not known.
// It is unknown until phaseLeft or the time of a phase of the step is known.
func (p *Steps) Left(now time.Time, phaseLeft time.Duration) (left time.Duration, atLeast, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	passed := now.Sub(p.began)
	steps := time.Duration(p.steps - p.done)
	if len(p.took) == 0 {
		if p.step == 0 || phaseLeft == 0 && p.ended.Before(p.began) {
			return 0, false, false
		}
		return steps*(passed+phaseLeft) - passed, true, true
	}
	sum := time.Duration(0)
	for _, d := range p.took {
		sum += d
	}
	mean := sum / time.Duration(len(p.took))
	return (steps-1)*mean + max(0, phaseLeft, mean-passed), false, steps > 0
}
