package track

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Metrics are the numbers of a line by name.
type Metrics = map[string]float64

// Phase is a part of a run that counts its own steps. Within a phase, the steps of
// successive lines never decrease, so that (phase, step) is an axis for plots.
type Phase string

// The phases of a run.
const (
	PhaseRead  Phase = "read"  // a fresh model reads random walks
	PhaseSFT   Phase = "sft"   // warm start: supervised training before the first step
	PhaseTrain Phase = "train" // the steps that checkpoints count; step 0 is a validation before the first step
)

// Line is the metrics of one step.
type Line struct {
	Phase   Phase
	Step    int       // number of the step in Phase
	Time    time.Time // time at which the step ended; zero: unknown
	Metrics Metrics
}

// Name returns the name of a metric for trackers that have one axis of steps per name:
// metrics of the phases before training, which count other steps, get the phase as prefix.
func (l Line) Name(metric string) string {
	prefix := string(l.Phase) + "/"
	if l.Phase == PhaseTrain || strings.HasPrefix(metric, prefix) {
		return metric
	}
	return prefix + metric
}

// names returns the names of the line's metrics in order.
func (l Line) names() []string { return slices.Sorted(maps.Keys(l.Metrics)) }

// seconds returns the line's time as Unix seconds, or 0 if it is unknown.
func (l Line) seconds() float64 {
	if l.Time.IsZero() {
		return 0
	}
	return float64(l.Time.UnixMilli()) / 1000
}
