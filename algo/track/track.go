package track

import "time"

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

// Sink takes the metrics of a run, step by step.
type Sink interface {
	// Write takes the metrics of a step. A step may have several lines, such as
	// its training and its validation.
	Write(l Line) error
	// Offset returns the number of durable bytes, or 0 for a sink without a file. A checkpoint records the
	// number, and a resumed run truncates the file to this length.
	Offset() (int64, error)
	// Close flushes and frees the sink.
	Close() error
}
