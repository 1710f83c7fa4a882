package cli

import (
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/cli/run"
)

// shownOn returns the lines that a terminal shows after the given text. The last line is the current line. A line wider than the
// terminal fails the test.
func shownOn(t *testing.T, columns int, text string) []string {
	t.Helper()
	lines := []string{""}
	for _, part := range regexp.MustCompile(`[\r\n]|[^\r\n]+`).FindAllString(text, -1) {
		last := len(lines) - 1
		switch part {
		case "\n":
			lines = append(lines, "")
			continue
		case "\r":
			lines[last] = "\r" + lines[last]
			continue
		}
		if n := utf8.RuneCountInString(part); n >= columns {
			t.Errorf("a line of %d columns on a terminal of %d columns: %q", n, columns, part)
		}
		if old, ok := strings.CutPrefix(lines[last], "\r"); ok { // the part overwrites the old text of the line
			if n := len([]rune(part)); n < len([]rune(old)) {
				part += string([]rune(old)[n:])
			}
			lines[last] = ""
		}
		lines[last] += part
	}
	for i, line := range lines {
		lines[i] = strings.TrimRight(strings.TrimLeft(line, "\r"), " ")
	}
	return lines
}

// onTerminal returns a State on a terminal with the given number of columns.
func onTerminal(t *testing.T, columns int) *testState {
	ts := newTestState(t)
	ts.Terminal = true
	ts.Columns = func() int { return columns }
	ts.Stderr = ts.newScreen()
	return ts
}

func (ts *testState) screen(t *testing.T) (lines []string, bar string) {
	t.Helper()
	all := shownOn(t, ts.columns(), ts.err.String())
	return all[:len(all)-1], all[len(all)-1]
}

// TestWatcherShowsEveryPhase checks that every phase shows progress from its start, and that a step shows the remaining
// time of the run.
func TestWatcherShowsEveryPhase(t *testing.T) {
	ts := onTerminal(t, 80)
	w := &watcher{s: ts.State}
	bar := func() string {
		t.Helper()
		_, bar := ts.screen(t)
		return bar
	}
	want := func(what, pattern string) {
		t.Helper()
		if got := bar(); !regexp.MustCompile(pattern).MatchString(got) {
			t.Errorf("%s shows %q, which does not match %s", what, got, pattern)
		}
	}
	sampled := 0
	pass := func(d time.Duration) { ts.clock = ts.clock.Add(d) }

	for step := 1; step <= 2; step++ {
		w.Phase(algo.Phase{Name: run.PhaseRead, Step: step, Steps: 2, Total: 64})
		pass(time.Minute)
		w.Progress(32, "")
		want("half a step of reading", `^read step [12]/2, rows 32/64 +(25|75)% .*\|.*\| \d:00, \d:\d\d left$`)
		w.Step(0, 2, algo.Metrics{"read/step": float64(step)})
	}
	if got := bar(); got != "" {
		t.Errorf("after training on walks: got the bar %q, want none", got)
	}
	w.Phase(algo.Phase{Name: algo.PhaseSFT, Step: 1, Steps: 9, Total: 2})
	want("a first step of supervised training", `^sft step 1/9, rows 0/2 `)
	w.Phase(algo.Phase{Name: "save_checkpoint"})
	want("a save in between", `^sft step 1/9, rows 0/2 `)

	w.Phase(algo.Phase{Name: "testing", Of: "maze before", Total: 8})
	want("a validation", `^validating maze before 0/8 `)
	w.Phase(algo.Phase{Name: "testing", Of: "textcraft before", Total: 8})
	want("another validation", `^validating textcraft before 0/8 `)

	w.Phase(algo.Phase{Name: "gen", Step: 1, Steps: 24, Total: 256, Sampled: func() int { return sampled }})
	want("playing that has just begun", `^step 1/24 playing 0/256 +0% \| +\| 0:00$`)
	pass(30 * time.Second)
	w.Progress(64, "9 solved")
	want("playing", `^step 1/24 playing 64/256 9 solved +25% \|.+\| 0:30, 1:30 left, run 47:30\+ left$`)
	sampled = 12345
	pass(time.Second)
	w.bar.refresh()
	want("the first tokens", `64/256 9 solved 12k tok 0:31, `)
	for _, name := range []string{"reward", "values", "old_log_prob", "ref", "update_critic", "update_actor"} {
		w.Phase(algo.Phase{Name: name, Step: 1, Steps: 24, Total: 0})
		want(name, `^step 1/24 `+phaseNames[name]+` 0:00, run 11:53\+ left$`) // at least 31 s for each further step
	}
	w.Phase(algo.Phase{Name: algo.PhaseReference})
	want("the reference", `^saving the reference 0:00, run 11:53\+ left$`)
	pass(89 * time.Second)
	w.Step(1, 24, algo.Metrics{"timing_s/step": 120})
	if lines, _ := ts.screen(t); !strings.Contains(lines[len(lines)-1], "(46:00 left)") {
		t.Errorf("after one of 24 steps in 2 minutes: got the line %q, want 46:00 left", lines[len(lines)-1])
	}
	w.Phase(algo.Phase{Name: "update_actor", Step: 2, Steps: 24, Total: 10})
	pass(time.Minute)
	w.Progress(5, "")
	want("an update", `^step 2/24 update 5/10 rows +50% \|█+ +\| 1:00, 1:00 left, run 45:00 left$`)
	w.done()
	if got := bar(); got != "" {
		t.Errorf("after the end: got the bar %q, want none", got)
	}
}

// TestWatcherFits checks that no line is wider than the terminal, and that a narrow terminal shows fewer values.
func TestWatcherFits(t *testing.T) {
	m := algo.Metrics{"episode/success_rate": .5, "timing_s/step": 1234.5, "reward/goal/mean": 1, "rollout/logprob_gap_k3": 1e-14, "actor/lr": 2.5e-5}
	for _, columns := range []int{200, 80, 40, 20, 5} {
		ts := onTerminal(t, columns)
		w := &watcher{s: ts.State}
		w.Phase(algo.Phase{Name: "gen", Step: 1, Steps: 1000, Total: 4096})
		ts.clock = ts.clock.Add(time.Hour)
		w.Progress(4000, "1234 solved")
		w.Step(1, 1000, m)
		w.Phase(algo.Phase{Name: "testing", Of: "a-very-long-name-of-an-environment untrained", Total: 100})
		lines, bar := ts.screen(t)
		w.Validated(rundir.Validation{Label: "untrained", Metrics: algo.Metrics{"val/a-very-long-name-of-an-environment/success_rate": .5, "val/loss": 1}})
		if after, _ := ts.screen(t); len(after) != 3 || after[2] == "" {
			t.Errorf("%d columns show %q", columns, after)
		}
		if bar == "" || len(lines) != 1 || lines[0] == "" {
			t.Fatalf("%d columns show %q and %q", columns, lines, bar)
		}
		if got := strings.Contains(lines[0], "lr "); got != (columns == 200) {
			t.Errorf("%d columns: %q", columns, lines[0])
		}
		if columns == 80 && !strings.HasSuffix(lines[0], "  (999:00:00 left)") {
			t.Errorf("80 columns: %q", lines[0])
		}
	}
}

// TestLogWithBar checks that log lines appear above the bar and do not remove the bar.
func TestLogWithBar(t *testing.T) {
	ts := onTerminal(t, 80)
	p := ts.Progress("playing", 4)
	p.Set(1, "")
	p.Set(2, "soon after")
	ts.Log = newLogger(ts.State, "info")
	ts.Log.Warn("a server went away")
	lines, bar := ts.screen(t)
	if len(lines) != 1 || !strings.Contains(lines[0], "a server went away") || strings.Contains(lines[0], "playing") || !strings.HasPrefix(bar, "playing 1/4") {
		t.Errorf("lines %q, bar %q", lines, bar)
	}
	p.Done()
	if _, bar := ts.screen(t); bar != "" {
		t.Errorf("the bar %q remains", bar)
	}
}

// TestStepLineGap checks that a step's line has the mean gap between the
// log-probs of sampling and of training, which rollout.max_logprob_gap limits.
func TestStepLineGap(t *testing.T) {
	ts := newTestState(t)
	w := &watcher{s: ts.State}
	w.Step(3, 24, algo.Metrics{"rollout/logprob_gap_mean": 3e-5, "rollout/logprob_gap_k3": 1e-9})
	if line := ts.err.String(); !strings.Contains(line, "  gap 3.0e-05  ") || strings.Contains(line, "kl") {
		t.Errorf("the line is %q", line)
	}
	w.Step(4, 24, algo.Metrics{"rollout/turns": 9}) // no update: no gap was measured
	if _, line, _ := strings.Cut(ts.err.String(), "\n"); !strings.Contains(line, "step  4/24") || strings.Contains(line, "gap") {
		t.Errorf("without an update: got the line %q, want step 4/24 without a gap", line)
	}
}
