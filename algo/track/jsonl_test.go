package track

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func readAll(t *testing.T, path string) []Line {
	t.Helper()
	var out []Line
	if err := Read(path, func(l Line) error {
		out = append(out, l)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func open(t *testing.T, path string) *JSONL {
	t.Helper()
	s, err := OpenJSONL(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func write(t *testing.T, s Sink, step int, m Metrics) {
	t.Helper()
	if err := s.Write(Line{Phase: PhaseTrain, Step: step, Metrics: m}); err != nil {
		t.Fatal(err)
	}
}

func TestJSONLForm(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	s := open(t, path)
	at := time.Unix(1790000000, 125e6)
	write(t, s, 0, nil)
	write(t, s, 3, Metrics{"b": 0.1, "a": 1, "actor/lr": 1e-6, "big": 1e300, "odd \"é": -0.5})
	write(t, s, 4, Metrics{"nan": math.NaN(), "inf": math.Inf(-1), "x": 2})
	if err := s.Write(Line{PhaseSFT, 1, at, Metrics{"x": 2}}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"step":0,"phase":"train"}
{"step":3,"phase":"train","a":1,"actor/lr":0.000001,"b":0.1,"big":1e+300,"odd \"é":-0.5}
{"step":4,"phase":"train","inf":null,"nan":null,"x":2,"nonfinite":2}
{"step":1,"phase":"sft","time":1790000000.125,"x":2}
`
	if d := cmp.Diff(want, string(text)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got, err := s.Offset(); got != int64(len(want)) || err != nil {
		t.Errorf("Offset = %d, %v, want %d", got, err, len(want))
	}
	lines := []Line{
		{Phase: PhaseTrain, Metrics: Metrics{}},
		{Phase: PhaseTrain, Step: 3, Metrics: Metrics{"b": 0.1, "a": 1, "actor/lr": 1e-6, "big": 1e300, "odd \"é": -0.5}},
		{Phase: PhaseTrain, Step: 4, Metrics: Metrics{"nan": math.NaN(), "inf": math.NaN(), "x": 2}},
		{PhaseSFT, 1, at, Metrics{"x": 2}},
	}
	if d := cmp.Diff(lines, readAll(t, path), cmpopts.EquateNaNs()); d != "" {
		t.Errorf("lines read from the file (-want +got):\n%s", d)
	}
	for _, name := range []string{"step", "phase", "time", "nonfinite", ""} {
		if err := s.Write(Line{Phase: PhaseTrain, Step: 5, Metrics: Metrics{name: 1}}); err == nil {
			t.Errorf("Write accepted the metric name %q", name)
		}
	}
}

// TestReadOldLines reads lines of versions that did not write the phase.
func TestReadOldLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m")
	text := `{"step":0,"val/maze/mean_score":0.5}
{"step":0,"read/step":7}
{"step":0,"sft/step":3}
{"step":2,"sft/step":2}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []Line{
		{Phase: PhaseTrain, Metrics: Metrics{"val/maze/mean_score": .5}},
		{Phase: PhaseRead, Step: 7, Metrics: Metrics{"read/step": 7}},
		{Phase: PhaseSFT, Step: 3, Metrics: Metrics{"sft/step": 3}},
		{Phase: PhaseTrain, Step: 2, Metrics: Metrics{"sft/step": 2}},
	}
	if d := cmp.Diff(want, readAll(t, path)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	write(t, open(t, path), 3, nil) // a resumed run appends to the file
	if got := len(readAll(t, path)); got != 5 {
		t.Errorf("%d lines after appending, want 5", got)
	}
}

// TestResume truncates the file to an offset, as a resumed run does, and repeats a step. It checks that the file equals
// the file of an uninterrupted run.
func TestResume(t *testing.T) {
	dir := t.TempDir()
	path, uninterrupted := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	s := open(t, path)
	write(t, s, 1, Metrics{"x": 1})
	write(t, s, 2, Metrics{"x": 2})
	saved, err := s.Offset()
	if err != nil {
		t.Fatal(err)
	}
	write(t, s, 3, Metrics{"x": 99}) // a line after the checkpoint, which TruncateTo removes
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	if err := s.TruncateTo(saved); err != nil {
		t.Fatal(err)
	}
	write(t, s, 3, Metrics{"x": 3})
	other := open(t, uninterrupted)
	for i := 1; i <= 3; i++ {
		write(t, other, i, Metrics{"x": float64(i)})
	}
	a, _ := os.ReadFile(path)
	b, _ := os.ReadFile(uninterrupted)
	if string(a) != string(b) {
		t.Errorf("file of the resumed run:\n%sfile of the uninterrupted run:\n%s", a, b)
	}
	for offset, want := range map[int64]string{-1: "was cut", 10000: "was cut", saved - 1: "inside a line"} {
		if err := s.TruncateTo(offset); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("TruncateTo(%d) = %v, want %q", offset, err, want)
		}
	}
	if got := len(readAll(t, path)); got != 3 {
		t.Errorf("after invalid offsets the file has %d lines, want 3", got)
	}
	if err := s.TruncateTo(0); err != nil {
		t.Error(err)
	}
	if got := readAll(t, path); len(got) != 0 {
		t.Errorf("after TruncateTo(0) the file has the lines %v, want none", got)
	}
}

// TestTornAnywhere truncates a file at every byte. It checks that OpenJSONL leaves only complete lines.
func TestTornAnywhere(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m")
	s := open(t, path)
	write(t, s, 1, Metrics{"x": 1})
	write(t, s, 2, Metrics{"x": 2})
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(text) + 1 {
		if err := os.WriteFile(path, text[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		want := strings.Count(string(text[:cut]), "\n")
		if got := len(readAll(t, path)); got != want {
			t.Fatalf("file cut at byte %d: Read gives %d lines, want %d", cut, got, want)
		}
		s, err := OpenJSONL(path)
		if err != nil {
			t.Fatalf("file cut at byte %d: %v", cut, err)
		}
		write(t, s, 9, nil)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		lines := readAll(t, path)
		if len(lines) != want+1 || lines[want].Step != 9 {
			t.Fatalf("file cut at byte %d: lines %v after appending", cut, lines)
		}
	}
}

func TestOpenRefusesOtherFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(path, []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenJSONL(path); err == nil || !strings.Contains(err.Error(), "not a metrics file") {
		t.Errorf("OpenJSONL = %v, want that it is not a metrics file", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "other" {
		t.Errorf("OpenJSONL changed the file to %q", text)
	}
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"{\"step\":1}\n{}\n":            "line 2",
		"{\"step\":1.5}\n":              `"step"`,
		"{\"step\":1}\nhello\n":         "line 2",
		"{\"step\":1,\"x\":\"text\"}\n": "line 1",
		"{\"step\":1,\"phase\":3}\n":    "line 1",
		"{\"step\":1,\"phase\":\"\"}\n": "line 1",
		"{\"step\":1,\"phase\":null}\n": "line 1",
		"{\"step\":1,\"x\":[]}\n":       "line 1",
	} {
		path := filepath.Join(t.TempDir(), "m")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := Read(path, func(Line) error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Read(%q) = %v, want %q", text, err, want)
		}
	}
	path := filepath.Join(t.TempDir(), "m")
	s := open(t, path)
	if err := s.Write(Line{Step: 1}); err == nil {
		t.Error("Write accepted a line without a phase")
	}
	write(t, s, 1, nil)
	stop := errors.New("stop")
	if err := Read(path, func(Line) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("Read = %v, want the callback's error", err)
	}
}

// TestReadFrom continues to read a file after the last complete line.
func TestReadFrom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	extend := func(text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err == nil {
			_, err = f.WriteString(text)
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var offset int64
	steps := func() (out []int) {
		t.Helper()
		var err error
		offset, err = ReadFrom(path, offset, func(l Line) error {
			out = append(out, l.Step)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	extend("{\"step\":1}\n{\"step\":2")
	if d := cmp.Diff([]int{1}, steps()); d != "" {
		t.Error(d)
	}
	extend("}\n{\"step\":3}\n")
	if d := cmp.Diff([]int{2, 3}, steps()); d != "" {
		t.Error(d)
	}
	extend("{}\n")
	if _, err := ReadFrom(path, offset, func(Line) error { return nil }); err == nil || !strings.Contains(err.Error(), "line 1 after byte 33") {
		t.Errorf("a line without a step: %v, want an error with its place", err)
	}
}
