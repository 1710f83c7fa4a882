package track

import (
	"errors"
	"fmt"

	"github.com/openmanus/openmanus/data/registry"
)

// Sinks holds the values of log.backends. An entry opens its sink in the run
// folder. The entries of the terminal and of metrics.jsonl are nil, because the
// run opens these two itself.
var Sinks = registry.New[func(folder string) (Sink, error)]("metric sink")

func init() {
	Sinks.Add(registry.Entry{Name: "console", Doc: "progress on the terminal"}, nil)
	Sinks.Add(registry.Entry{Name: "jsonl", Doc: "the run folder's metrics.jsonl, which is always written"}, nil)
}

// tee is a sink that writes to several sinks. Its offset is the offset of the first sink.
type tee []Sink

// With opens the named sinks in the run folder, and returns a sink that writes to the first sink and to them. When a run
// resumes, only the first sink is truncated to the checkpoint; the named sinks receive the repeated steps a second time.
func With(first Sink, folder string, names []string) (Sink, error) {
	sinks := tee{first}
	for _, name := range names {
		open, err := Sinks.Lookup(name)
		if err == nil && open == nil {
			continue
		}
		if err == nil {
			var sink Sink
			if sink, err = open(folder); err == nil {
				sinks = append(sinks, sink)
			}
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("metric sink %s: %w", name, err), sinks[1:].Close())
		}
	}
	if len(sinks) == 1 {
		return first, nil
	}
	return sinks, nil
}

// Write writes to every sink and returns the errors of all.
func (t tee) Write(l Line) error {
	var errs []error
	for _, sink := range t {
		errs = append(errs, sink.Write(l))
	}
	return errors.Join(errs...)
}

// Offset returns the offset of the first sink.
func (t tee) Offset() (int64, error) { return t[0].Offset() }

// Close closes every sink.
func (t tee) Close() error {
	var errs []error
	for _, sink := range t {
		errs = append(errs, sink.Close())
	}
	return errors.Join(errs...)
}
