package track

import "errors"

// Metrics are the numbers of one step by name.
type Metrics = map[string]float64

// Sink takes the metrics of a run, step by step.
type Sink interface {
	// Write takes the metrics of a step. A step may have several lines, such as
	// its training and its validation.
	Write(step int, m Metrics) error
	// Offset returns how many durable bytes have been written, for a checkpoint
	// to keep and a resumed run to go back to; 0 for a sink that keeps nothing.
	Offset() (int64, error)
	// Close flushes and frees the sink.
	Close() error
}

// Multi writes to several sinks. All get every line, whatever errors the
// others give; Offset is the first sink's.
type Multi []Sink

// Write writes to every sink.
func (s Multi) Write(step int, m Metrics) error {
	var errs []error
	for _, sink := range s {
		errs = append(errs, sink.Write(step, m))
	}
	return errors.Join(errs...)
}

// Offset returns the first sink's offset.
func (s Multi) Offset() (int64, error) {
	if len(s) == 0 {
		return 0, nil
	}
	return s[0].Offset()
}

// Close closes every sink.
func (s Multi) Close() error {
	var errs []error
	for _, sink := range s {
		errs = append(errs, sink.Close())
	}
	return errors.Join(errs...)
}
