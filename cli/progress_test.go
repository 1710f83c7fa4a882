package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/openmanus/openmanus/cli/run"
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
	if got, want := ts.err.String(), "episodes: 40/100 12 tok/s, 0:10, 0:15 left\nepisodes: 100/100, 0:10\n"; got != want {
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
	if got, want := ts.err.String(), "episodes: 2/2, 0:10\n"; got != want {
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

// TestProgressMoves checks that a display changes within two seconds although its work reports nothing, on a terminal, and within
// plainEvery elsewhere, and that the count never decreases.
func TestProgressMoves(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		ts := newTestState(t)
		ts.Terminal = terminal
		sampled := 0
		d := ts.display(work{label: "playing", total: 8, prior: time.Minute})
		d.Set(0, "0 solved")
		d.Live(func() string { sampled += 900; return run.SampledNote(sampled) })
		every := 2 * time.Second
		if !terminal {
			every = plainEvery
		}
		for range 5 {
			before := ts.err.String()
			ts.clock = ts.clock.Add(every)
			d.refresh()
			if got := strings.TrimPrefix(ts.err.String(), before); !regexp.MustCompile(`playing:? 0/8 0 solved,? [\d.]+k? tok.*\d:\d\d, \d:\d\d left`).MatchString(got) {
				t.Errorf("terminal %t: after %v: %q", terminal, every, got)
			}
		}
		d.Set(5, "")
		d.Set(3, "late")
		if d.n != 5 {
			t.Errorf("the count went back to %d", d.n)
		}
		d.Done()
	}
}

// TestNestedProgress checks that the innermost display is shown, and the outer one again after it.
func TestNestedProgress(t *testing.T) {
	ts := onTerminal(t, 80)
	bar := func(want string) {
		t.Helper()
		if _, got := ts.screen(t); !strings.HasPrefix(got, want) {
			t.Errorf("got the bar %q, want %q", got, want)
		}
	}
	outer := ts.display(work{label: "starting"})
	inner := ts.display(work{label: "opening the model"})
	bar("opening the model 0:00")
	ts.clock = ts.clock.Add(time.Second)
	outer.refresh()
	bar("opening the model 0:00")
	inner.refresh()
	bar("opening the model 0:01")
	inner.Done()
	bar("starting 0:01")
	outer.Done()
	if _, got := ts.screen(t); got != "" {
		t.Errorf("the bar %q remains", got)
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

// TestLinesFit checks that a run on a terminal of 80 columns shows all its parts and writes no wider line, also with long names, warnings and commands. Single
// words, such as paths, may be wider.
func TestLinesFit(t *testing.T) {
	dir := t.TempDir()
	const file = "a-long-name-of-a-configuration-file-of-a-run.toml"
	writeFile(t, dir, file, strings.Replace(tinyRun, `experiment = "tiny"`, `experiment = "a-rather-long-name-of-a-run"`, 1))
	loud := slices.DeleteFunc(slices.Clone(shortRun), func(a string) bool { return a == "--quiet" })
	for i, args := range [][]string{{}, {"--set", "trainer.total_steps=3"}, {}, {"--set", "trainer.no=1"}} {
		ts := onTerminal(t, 80)
		ts.Args = slices.Concat([]string{"openmanus", "train", file, "--log-level", "debug", "--set", "actor.use_kl_loss=true", "--set", "algo.adv_estimator=gae"}, loud, args)
		ts.Dir = dir
		code := Main(ts.State)
		if (code != 0) != strings.Contains(strings.Join(args, " "), "trainer.no") {
			t.Fatalf("%q: exit code %d\n%s", args, code, ts.err.String())
		}
		shown := strings.ReplaceAll(ts.err.String(), "\r", "\n") + "\n" + ts.out.String()
		if i == 0 { // the next process reads steps of ten seconds
			metrics := one(t, dir, "runs/a-rather-long-name-of-a-run/metrics.jsonl")
			metrics = regexp.MustCompile(`"timing_s/step":[\d.]+`).ReplaceAllStringFunc(metrics, func(s string) string {
				return regexp.MustCompile(`\d`).ReplaceAllString(s, "9")
			})
			writeFile(t, dir, "runs/a-rather-long-name-of-a-run/metrics.jsonl", metrics)
		}
		if i == 1 && !strings.Contains(shown, "run 0:10 left") {
			t.Errorf("the resumed run shows no remaining time:\n%s", shown)
		}
		if i == 0 {
			for _, label := range []string{"starting", "opening the environments", "playing walks of maze 0/", "playing expert tasks of maze 0/", "opening the model",
				"starting the engine", "rendering trajectories", "read step 1/", "sft step 1/", "saving the reference", "validating maze before 0/", "step 1/2 playing 0/",
				"step 1/2 reference 0/", "step 1/2 update 0/", "saving"} {
				if !strings.Contains(shown, "\n"+label) {
					t.Errorf("the terminal never shows %q", label)
				}
			}
			if !strings.Contains(shown, "  kl ") {
				t.Errorf("no KL on the lines of the steps:\n%s", ts.err.String())
			}
		}
		lines := strings.Split(strings.ReplaceAll(shown, dir+"/", ""), "\n")
		if len(lines) < 3 {
			t.Errorf("%q: only %d lines", args, len(lines))
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n >= 80 && strings.Contains(strings.TrimSuffix(strings.TrimSpace(line), " \\"), " ") {
				t.Errorf("%q: %d columns: %q", args, n, line)
			}
		}
	}
}
