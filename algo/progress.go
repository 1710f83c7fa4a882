package algo

import (
	"context"

	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/rundir"
)

// Metrics are the numbers of one line of metrics.jsonl, by name.
type Metrics = map[string]float64

// Events receives the progress of a run. One goroutine at a time calls its methods.
type Events interface {
	// Phase reports that a phase begins and that the previous phase has ended.
	Phase(p Phase)
	// Progress reports that n units of the current phase are done.
	Progress(n int, note string)
	// Step reports the metrics of a finished step. Steps of supervised training
	// have the metric track.SFTStep; steps of a warm start have step 0.
	Step(step, steps int, m Metrics)
	// Validated reports a validation.
	Validated(v rundir.Validation)
}

// Phase is a part of a run.
type Phase struct {
	Name  string // NAME of the metric timing_s/NAME, PhaseSFT or PhaseReference
	Step  int    // step that the phase is part of; 0: none
	Steps int    // number of steps of this kind in the run
	Of    string // environment and label of a validation; "" elsewhere
	Total int    // units that Progress counts to, episodes or rows; 0: Progress is not called

	// Sampled returns the number of tokens sampled since the phase began. It may be called concurrently,
	// and also after the phase. nil: the phase plays no episodes.
	Sampled func() int
}

// PhaseSFT is the phase of a step of supervised training.
const PhaseSFT = "sft"

// PhaseReference is the phase that makes the current weights the reference of the KL.
const PhaseReference = "reference"

// Listeners is an Events that passes every report to all its members, in their order.
type Listeners []Events

// Phase passes p on.
func (l Listeners) Phase(p Phase) {
	for _, e := range l {
		e.Phase(p)
	}
}

// Progress passes the progress on.
func (l Listeners) Progress(n int, note string) {
	for _, e := range l {
		e.Progress(n, note)
	}
}

// Step passes the metrics on. Members must not change m.
func (l Listeners) Step(step, steps int, m Metrics) {
	for _, e := range l {
		e.Step(step, steps, m)
	}
}

// Validated passes v on.
func (l Listeners) Validated(v rundir.Validation) {
	for _, e := range l {
		e.Validated(v)
	}
}

type noEvents struct{}

func (noEvents) Phase(Phase)                 {}
func (noEvents) Progress(int, string)        {}
func (noEvents) Step(int, int, Metrics)      {}
func (noEvents) Validated(rundir.Validation) {}

// countRows returns a context under which passes over rows report the finished
// rows as the progress of the phase.
func countRows(ctx context.Context, events Events) context.Context {
	done := 0
	return learner.CountRows(ctx, func(rows int) {
		done += rows
		events.Progress(done, "")
	})
}
