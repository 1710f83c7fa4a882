package track

import "github.com/openmanus/openmanus/data/registry"

// Sinks holds the values of log.backends. An entry opens its sink in the run
// folder; it is nil for the two that the run itself provides: the terminal and
// metrics.jsonl, whose length checkpoints record.
var Sinks = registry.New[func(folder string) (Sink, error)]("metric sink")

func init() {
	Sinks.Register("console", nil)
	Sinks.Register("jsonl", nil)
}
