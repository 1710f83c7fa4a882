package track

// Metrics are the numbers of one step by name.
type Metrics = map[string]float64

// Sink takes the metrics of a run, step by step.
type Sink interface {
	// Write takes the metrics of a step. A step may have several lines, such as
	// its training and its validation.
	Write(step int, m Metrics) error
	// Offset returns the number of durable bytes, or 0 for a sink without a file. A checkpoint records the
	// number, and a resumed run truncates the file to this length.
	Offset() (int64, error)
	// Close flushes and frees the sink.
	Close() error
}
