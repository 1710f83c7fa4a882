// Package track writes the metrics of a run to metrics.jsonl, one line per step,
// and to other sinks. It owns the names of metrics and the format of the file.
//
// It does not compute metrics, and it does not log events.
//
// The methods of a Sink must not be called concurrently.
package track
