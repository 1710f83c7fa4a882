// Package track writes the metrics of a run: one line a step to metrics.jsonl,
// which is the source of truth, and to a console for people. It owns the
// metrics' names and the form of the file.
//
// It does not know how a metric is computed beyond means and timings, and
// metrics are not logs: what happened goes to slog.
//
// Sinks and timers belong to one goroutine, the trainer's.
package track
