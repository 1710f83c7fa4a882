package track

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/openmanus/openmanus/data/registry"
)

// Sink takes the lines of a run.
type Sink interface {
	// Write takes a line. It must not wait for a server.
	Write(l Line) error
	// Close flushes and frees the sink.
	Close() error
}

// File is a sink whose length checkpoints record. A resumed run truncates
// metrics.jsonl to this length.
type File interface {
	Sink
	// Offset returns the number of durable bytes of metrics.jsonl.
	Offset() (int64, error)
}

// Run describes a run to its sinks.
type Run struct {
	Name    string // name of the run
	Folder  string // folder in which sinks write
	Metrics string // path of the run's metrics.jsonl
	Config  string // text of the run's config.toml; "": unknown
	Getenv  func(string) string
	Log     *slog.Logger
	Ended   func() End // returns how the run ended; Close calls it. nil: Finished
	// Strict makes Close return an error if a server lacks lines. Otherwise the sink logs a warning, since training
	// must not depend on the server.
	Strict bool
}

// End is how a run, or its latest process, ended.
type End int

// The ends of a run.
const (
	Finished    End = iota
	Interrupted     // it can be resumed
	Failed
	Running // a process is training
)

func (r Run) ended() End {
	if r.Ended == nil {
		return Finished
	}
	return r.Ended()
}

// Open opens a sink. The context bounds its background work. A sink first receives
// all lines of Run.Metrics again, so it replaces the files of an earlier process.
// It creates files when it receives the first line, not before.
type Open func(ctx context.Context, r Run) (Sink, error)

// Sinks holds the values of log.backends. The entries of the terminal and of
// metrics.jsonl are nil, because the run opens these two itself.
var Sinks = registry.New[Open]("metric sink")

func init() {
	Sinks.Add(registry.Entry{Name: "console", Doc: "progress on the terminal"}, nil)
	Sinks.Add(registry.Entry{Name: "jsonl", Doc: "the run folder's metrics.jsonl, which is always written"}, nil)
}

// tee is a File that writes to several sinks.
type tee struct {
	File
	others []Sink
}

// With opens the named sinks and returns a sink that writes to metrics.jsonl and to them. The
// named sinks first receive the lines of metrics.jsonl, so that lines which a resumed run has
// removed from metrics.jsonl are removed from them too.
func With(ctx context.Context, file File, r Run, names []string) (File, error) {
	t := tee{File: file}
	for _, name := range names {
		open, err := Sinks.Lookup(name)
		if err == nil && open == nil {
			continue
		}
		var sink Sink
		if err == nil {
			sink, err = open(ctx, r)
		}
		if err == nil {
			t.others = append(t.others, sink)
			err = Read(r.Metrics, sink.Write)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("metric sink %s: %w", name, err), t.closeOthers())
		}
	}
	if len(t.others) == 0 {
		return file, nil
	}
	return t, nil
}

// Export writes the lines of a run to a named sink and returns their number.
func Export(ctx context.Context, r Run, name string) (lines int, err error) {
	open, err := Sinks.Lookup(name)
	if err != nil {
		return 0, err
	}
	if open == nil {
		return 0, fmt.Errorf("metrics are not exported to %s", name)
	}
	if err := os.MkdirAll(r.Folder, 0o755); err != nil {
		return 0, err
	}
	r.Strict = true
	sink, err := open(ctx, r)
	if err != nil {
		return 0, err
	}
	err = Read(r.Metrics, func(l Line) error {
		if lines++; ctx.Err() != nil {
			return ctx.Err()
		}
		return sink.Write(l)
	})
	return lines, errors.Join(err, sink.Close())
}

// Write writes to every sink and returns the errors of all.
func (t tee) Write(l Line) error {
	errs := []error{t.File.Write(l)}
	for _, sink := range t.others {
		errs = append(errs, sink.Write(l))
	}
	return errors.Join(errs...)
}

// Close closes every sink.
func (t tee) Close() error { return errors.Join(t.closeOthers(), t.File.Close()) }

func (t tee) closeOthers() error {
	var errs []error
	for _, sink := range t.others {
		errs = append(errs, sink.Close())
	}
	return errors.Join(errs...)
}
