package track

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// testConfig is the configuration of the runs of tests.
const testConfig = `[trainer]
project = "demo"
seed = 3
[actor]
shuffle = true
stages = ["1:2", "9:4"]
[[env]]
name = "maze"
tasks = "0-3"
`

// testRun returns a run with an empty metrics.jsonl and its file.
func testRun(t *testing.T, env map[string]string) (Run, *JSONL) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "night")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r := Run{
		Name: "night", Folder: dir, Metrics: filepath.Join(dir, "metrics.jsonl"), Config: testConfig,
		Getenv: func(key string) string { return env[key] }, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	return r, open(t, r.Metrics)
}

// with opens named sinks over a file.
func with(t *testing.T, file File, r Run, names ...string) File {
	t.Helper()
	f, err := With(t.Context(), file, r, names)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// testLines are the lines of a run with three phases. The set of metrics grows.
func testLines() []Line {
	at := func(s int) time.Time { return time.UnixMilli(1790000000_250).Add(time.Duration(s) * time.Second) }
	return []Line{
		{PhaseRead, 10, at(0), Metrics{"read/step": 10, "read/loss": 2.5}},
		{PhaseSFT, 1, at(1), Metrics{"sft/step": 1, "train/loss": 1.5, "perf/rss_bytes": 100}},
		{PhaseSFT, 2, at(2), Metrics{"sft/step": 2, "train/loss": 1.25, "perf/rss_bytes": 101}},
		{PhaseTrain, 0, at(3), Metrics{"val/maze/success_rate": 0.25, "perf/rss_bytes": 102}},
		{PhaseTrain, 1, at(4), Metrics{"training/global_step": 1, "critic/score/mean": 0.5, "perf/rss_bytes": 103}},
		{PhaseTrain, 2, at(5), Metrics{"training/global_step": 2, "critic/score/mean": 0.75, "perf/rss_bytes": 104, "val/maze/reward/mean@1": -1e-7}},
	}
}

func writeLines(t *testing.T, s Sink, lines ...Line) {
	t.Helper()
	for _, l := range lines {
		if err := s.Write(l); err != nil {
			t.Fatal(err)
		}
	}
}

func closeSink(t *testing.T, s Sink) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// interrupted writes the test lines to a sink as a run does that was killed after a step and resumed from an earlier
// checkpoint: the step that is written twice has other metrics the first time.
func interrupted(t *testing.T, r Run, file *JSONL, name string) {
	t.Helper()
	lines := testLines()
	first := r
	first.Ended = func() End { return Interrupted }
	s := with(t, file, first, name)
	writeLines(t, s, lines[:4]...)
	saved, err := file.Offset()
	if err != nil {
		t.Fatal(err)
	}
	writeLines(t, s, Line{PhaseTrain, 1, lines[4].Time, Metrics{"training/global_step": 1, "critic/score/mean": 99, "lost": 1}})
	closeSink(t, s)
	file = open(t, r.Metrics)
	if err := file.TruncateTo(saved); err != nil {
		t.Fatal(err)
	}
	s = with(t, file, r, name)
	writeLines(t, s, lines[4:]...)
	closeSink(t, s)
}

func TestWith(t *testing.T) {
	r, file := testRun(t, nil)
	if s := with(t, file, r, "console", "jsonl"); s != File(file) {
		t.Errorf("With returned %T, want the file", s)
	}
	if _, err := With(t.Context(), file, r, []string{"csv", "nothing"}); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("With opened an unknown sink: %v", err)
	}
	for _, name := range []string{"csv", "tensorboard", "wandb"} {
		if _, err := Export(t.Context(), r, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if entries, _ := os.ReadDir(r.Folder); len(entries) != 1 {
		t.Errorf("sinks without a line left the files %v", entries)
	}
	for _, name := range []string{"jsonl", "nothing"} {
		if _, err := Export(t.Context(), r, name); err == nil {
			t.Errorf("Export accepts %q", name)
		}
	}
	r.Config = "["
	if _, err := With(t.Context(), file, r, []string{"wandb"}); err == nil || !strings.Contains(err.Error(), "config.toml") {
		t.Errorf("With with an invalid configuration: %v", err)
	}
}

// TestFullDisk checks that a sink which cannot write its file returns an error that names the file.
func TestFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full")
	}
	full := func() *os.File {
		f, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	l := testLines()[4]
	for name, s := range map[string]Sink{
		"metrics.csv": &csvSink{f: full(), columns: slices.Concat([]string{"phase", "step", "time"}, l.names())},
		"tensorboard": &eventFile{f: full()},
		"wandb":       &offlineRun{log: newRecordLog(full()), stepMetric: map[string]string{}},
	} {
		if err := s.Write(l); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("%s: Write = %v, want an error with the file and the cause", name, err)
		}
	}
	r, file := testRun(t, nil)
	writeLines(t, file, l)
	r.Folder = filepath.Join(r.Metrics, "no-folder")
	for _, name := range []string{"csv", "tensorboard", "wandb"} {
		if _, err := Export(context.Background(), r, name); err == nil {
			t.Errorf("%s: Export into a file succeeded", name)
		}
	}
}

func TestName(t *testing.T) {
	for _, c := range []struct {
		phase        Phase
		metric, want string
	}{
		{PhaseTrain, "train/loss", "train/loss"},
		{PhaseSFT, "train/loss", "sft/train/loss"},
		{PhaseSFT, "sft/step", "sft/step"},
		{PhaseRead, "perf/read_tokens_per_s", "read/perf/read_tokens_per_s"},
		{PhaseRead, "read/loss", "read/loss"},
	} {
		if got := (Line{Phase: c.phase}).Name(c.metric); got != c.want {
			t.Errorf("the name of %s in phase %s is %s, want %s", c.metric, c.phase, got, c.want)
		}
	}
}
