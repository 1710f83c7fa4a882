package cli

import (
	"strings"
	"testing"
)

func TestProgressPlain(t *testing.T) {
	ts := newTestState(t)
	p := ts.Progress("episodes", 100)
	p.Set(1, "soon")
	ts.clock = ts.clock.Add(plainEvery)
	p.Set(40, "12 tok/s")
	p.Set(41, "")
	p.Set(100, "")
	p.Done()
	p.Done()
	p.Set(101, "late")
	if got, want := ts.err.String(), "episodes: 40/100 12 tok/s\nepisodes: 100/100\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestProgressPlainEnd checks that Done does not repeat the last line.
func TestProgressPlainEnd(t *testing.T) {
	ts := newTestState(t)
	p := ts.Progress("episodes", 2)
	ts.clock = ts.clock.Add(plainEvery)
	p.Set(2, "")
	p.Done()
	if got, want := ts.err.String(), "episodes: 2/2\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestProgressTerminal(t *testing.T) {
	ts := newTestState(t)
	ts.Terminal = true
	p := ts.Progress("episodes", 10)
	p.Set(5, "half")
	p.Set(6, "too soon")
	p.Set(99, "beyond the end")
	p.Done()
	p.Done()
	p.Set(1, "late")
	if got := ts.err.String(); !strings.Contains(got, "episodes 5/10 half  50% |") || strings.Contains(got, "soon") {
		t.Errorf("no bar in %q", got)
	}
}

// TestQuiet checks that a command with --quiet prints no progress and no log lines below errors.
func TestQuiet(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	code, _, stderr := inProcess(t, dir, append([]string{"train", "run.toml", "--quiet"}, shortRun...)...)
	if code != 0 || stderr != "" {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}
