package report

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/rundir/checkpoint"
	"github.com/openmanus/openmanus/algo/track"
)

// TestStates reads folders in every state that a run can leave.
func TestStates(t *testing.T) {
	start := `{"time":"2026-11-23T10:00:00Z","level":"INFO","msg":"run","folder":"x"}` + "\n"
	end := func(reason string) string {
		return start + `{"time":"2026-11-23T10:05:00Z","level":"ERROR","msg":"the run ended","error":"` + reason + `"}` + "\n"
	}
	for _, c := range []struct {
		name   string
		log    string
		state  rundir.State
		locked bool
		want   State
		reason string
	}{
		{name: "running", log: start, state: rundir.State{Step: 2}, locked: true, want: Running},
		{name: "running after a failure", log: end("the disk is full"), locked: true, want: Running},
		{name: "finished", log: start + `{"msg":"the run ended"}` + "\n", state: rundir.State{Step: 3, Finished: true}, want: Finished},
		{name: "interrupted", log: end("interrupted; run the same command"), state: rundir.State{Step: 2}, want: Interrupted},
		{name: "failed", log: end("the disk is full"), state: rundir.State{Step: 2}, want: Failed, reason: "the disk is full"},
		{name: "failed when extended", log: end("no server"), state: rundir.State{Step: 3, Finished: true}, want: Failed, reason: "no server"},
		{name: "killed", log: start, state: rundir.State{Step: 2}, want: Interrupted, reason: "the process was killed: the log has no end"},
		{name: "killed in its second process", log: end("no server") + start, want: Interrupted, reason: "the process was killed: the log has no end"},
		{name: "old, without a log", state: rundir.State{Step: 3, Finished: true}, want: Finished},
		{name: "nothing but metrics", want: Interrupted},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFolder(t, "run")
			f.metrics(steps(1, 3)...)
			if c.log != "" {
				f.file(f.Log(), c.log)
			}
			if c.state.Step > 0 {
				f.checkpoint(c.state)
			}
			if c.locked {
				lock, err := checkpoint.AcquireLock(f.Dir)
				check(t, err)
				defer func() { check(t, lock.Release()) }()
			}
			r, err := Open(f.Dir)
			check(t, err)
			if r.State != c.want || r.Reason != c.reason || r.Step != 3 {
				t.Errorf("state %s (%q) at step %d, want %s (%q) at step 3", r.State, r.Reason, r.Step, c.want, c.reason)
			}
		})
	}
}

func TestNotARun(t *testing.T) {
	if _, err := Open(t.TempDir()); err == nil {
		t.Error("an empty folder was opened as a run")
	}
	f := newFolder(t, "damaged")
	f.file(f.Metrics(), "{\"step\":\n")
	if _, err := Open(f.Dir); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("damaged metrics: %v, want an error with the line", err)
	}
}

// TestOldRun opens a folder that an older version has written.
func TestOldRun(t *testing.T) {
	r, err := Open("../../cli/testdata/before/runs/tiny")
	check(t, err)
	if r.Metric(track.PhaseRead, track.ReadLoss) == nil || len(r.Metric(track.PhaseSFT, track.SFTLoss).X) != 2 || len(r.Metric(track.PhaseTrain, track.SuccessRate).X) == 0 {
		t.Errorf("series by phase: %d read, %d sft, %d train", len(r.Series[track.PhaseRead]), len(r.Series[track.PhaseSFT]), len(r.Series[track.PhaseTrain]))
	}
	if len(r.Validations) == 0 {
		t.Error("the run has no validations")
	}
}

// TestRefresh follows a run that trains, dies, and resumes from an older checkpoint.
func TestRefresh(t *testing.T) {
	f := newFolder(t, "run")
	r, err := Open(f.Dir)
	check(t, err)
	if r.Step != 0 || r.Steps != 24 {
		t.Errorf("step %d of %d before the first line, want 0 of 24", r.Step, r.Steps)
	}
	read := func(want ...float64) {
		t.Helper()
		check(t, r.Refresh())
		if d := cmp.Diff(want, r.Metric(track.PhaseTrain, track.SuccessRate).X); d != "" {
			t.Errorf("steps (-want +got):\n%s", d)
		}
	}
	f.metrics(steps(1, 2)...)
	read(1, 2)
	f.metrics(steps(3, 9)...)
	read(1, 2, 3, 4, 5, 6, 7, 8, 9)
	if len(r.Validations) != 1 || r.Validations[0].Label != "step 8" || r.Seconds["update_actor"] != 9 {
		t.Errorf("validations %+v and %g seconds of updates, want one validation and 9", r.Validations, r.Seconds["update_actor"])
	}
	check(t, os.Remove(f.Metrics()))
	f.metrics(steps(1, 4)...)
	read(1, 2, 3, 4)
	if len(r.Validations) != 0 || r.Seconds["update_actor"] != 4 {
		t.Errorf("after the resume: %d validations and %g seconds of updates, want 0 and 4", len(r.Validations), r.Seconds["update_actor"])
	}
}

// TestFacts checks the summary of a finished run and its labels.
func TestFacts(t *testing.T) {
	f := newFolder(t, "run")
	before := track.Line{Phase: track.PhaseTrain, Metrics: track.Metrics{
		"untrained/val/maze/success_rate": 0.9, "untrained/val/maze/episodes": 10, track.TimingTesting: 3}}
	f.metrics(append([]track.Line{before}, steps(1, 24)...)...)
	f.checkpoint(rundir.State{Step: 24, Finished: true})
	r, err := Open(f.Dir)
	check(t, err)
	var labels []string
	for _, v := range r.Validations {
		labels = append(labels, v.Label)
	}
	if d := cmp.Diff([]string{"untrained", "step 8", "step 16", "after"}, labels); d != "" {
		t.Errorf("labels (-want +got):\n%s", d)
	}
	got := FactsOf(r)
	if got.State != Finished || got.Step != 24 || got.Steps != 24 || got.Last.Step != 24 || got.Best.Step != 16 || got.Best.Success != 1 || got.Seconds != 3+24*3.5 {
		t.Errorf("facts %+v, last %+v, best %+v", got, got.Last, got.Best)
	}
	text := Summarize(r).Text(r.Updated)
	for _, want := range []string{"finished, step 24/24", "episode/success_rate", "0.943 - 1.000", "playing", "last change 0 s ago"} {
		if !strings.Contains(text, want) {
			t.Errorf("the summary does not contain %q:\n%s", want, text)
		}
	}
}

// TestSupervisedRun checks that a run of openmanus sft has the steps of [sft].
func TestSupervisedRun(t *testing.T) {
	f := newFolder(t, "run-sft")
	f.file(f.Config(), "[trainer]\ntotal_steps = 24\n[sft]\ntotal_steps = 5\n")
	f.metrics(track.Line{Phase: track.PhaseTrain, Step: 2, Metrics: track.Metrics{track.SFTLoss: 3, track.SFTStep: 2, track.ValidationLoss: 4}})
	r, err := Open(f.Dir)
	check(t, err)
	if r.Step != 2 || r.Steps != 5 || len(r.Validations) != 1 || *r.Validations[0].Loss != 4 {
		t.Errorf("step %d of %d, validations %+v; want 2 of 5 and a loss of 4", r.Step, r.Steps, r.Validations)
	}
	if text := Summarize(r).Text(r.Updated); !strings.Contains(text, "4.0000") {
		t.Errorf("the summary does not have the held-out loss:\n%s", text)
	}
}

// TestThin checks that thinned series keep spikes, gaps and order, and have at most the given length.
func TestThin(t *testing.T) {
	s := &Series{}
	for i := range 10000 {
		y := math.Sin(float64(i) / 500)
		switch i {
		case 4321:
			y = 1000
		case 777:
			y = -1000
		case 9000:
			y = math.NaN()
		}
		s.add(float64(i), y)
	}
	thin := s.Thin(200)
	if len(thin.X) > 200 || len(thin.X) < 150 {
		t.Errorf("%d points, want about 200", len(thin.X))
	}
	seen := map[float64]bool{}
	for i, x := range thin.X {
		if i > 0 && x <= thin.X[i-1] {
			t.Fatalf("x = %g follows %g", x, thin.X[i-1])
		}
		if want := s.Y[int(x)]; thin.Y[i] != want && !(math.IsNaN(want) && math.IsNaN(thin.Y[i])) {
			t.Errorf("y(%g) = %g, want %g", x, thin.Y[i], want)
		}
		seen[x] = true
	}
	if !seen[4321] || !seen[777] || !seen[9000] {
		t.Error("a spike or a gap was removed")
	}
	if whole := s.Thin(len(s.X)); len(whole.X) != len(s.X) {
		t.Errorf("a short series was thinned to %d points", len(whole.X))
	}
	text, err := (&Series{X: []float64{1, 1e6}, Y: []float64{math.NaN(), 1.23456789e-9}}).MarshalJSON()
	if string(text) != `{"x":[1,1000000],"y":[null,1.23457e-09]}` || err != nil {
		t.Errorf("JSON %s, %v", text, err)
	}
}

// TestChartsNameMetrics checks that every metric of a chart is documented.
func TestChartsNameMetrics(t *testing.T) {
	ids := map[string]bool{}
	for _, c := range Charts {
		if ids[c.ID] || c.Title == "" || c.Help == "" {
			t.Errorf("chart %q is double, or has no title or help", c.ID)
		}
		ids[c.ID] = true
		for _, m := range c.Metrics {
			if Meaning(m.Metric) == "" {
				t.Errorf("chart %s: metric %s is not in track.Table", c.ID, m.Metric)
			}
		}
	}
	for _, p := range TimePhases {
		if Meaning(track.Timing(p[0])) == "" {
			t.Errorf("phase %s is not in track.Table", p[0])
		}
	}
}

func TestDifferences(t *testing.T) {
	one, err := settings([]byte("[actor.optim]\nlr = 1e-6\n[[env]]\nname = \"maze\"\nlabel = \"a\"\ntasks = [\"0-3\"]\n[[env]]\nname = \"maze\"\nlabel=\"b\"\n[agent]\nformat = \"react\"\n"))
	check(t, err)
	two, err := settings([]byte("[actor.optim]\nlr = 1e-5\n[[env]]\nname = \"maze\"\nlabel = \"a\"\ntasks = [\"0-3\"]\n[agent]\nformat = \"react\"\nmax_turns = 3\n"))
	check(t, err)
	got := Differences([]*Run{{Config: one}, {Config: two}})
	want := []Difference{{"actor.optim.lr", []string{"0.000001", "0.00001"}}, {"agent.max_turns", []string{"", "3"}}, {"env.b.label", []string{"b", ""}}, {"env.b.name", []string{"maze", ""}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestComparedEnvironments shows that the text of a comparison omits most settings of an environment that a run lacks.
func TestComparedEnvironments(t *testing.T) {
	c := Comparison{Runs: []Facts{{Name: "one"}, {Name: "two"}}, Differences: []Difference{
		{"actor.optim.lr", []string{"1", "2"}},
		{"env.a.max_turns", []string{"3", "4"}},
		{"env.b.name", []string{"maze", ""}},
		{"env.b.tasks", []string{"0-3", ""}},
		{"env.b.timeout", []string{"1m", ""}},
	}}
	var keys []string
	for line := range strings.Lines(c.String()) {
		if key := strings.TrimSpace(line); strings.Contains(key, ".") && !strings.Contains(key, " ") {
			keys = append(keys, key)
		}
	}
	want := []string{"actor.optim.lr", "env.a.max_turns", "env.b.name", "env.b.tasks"}
	if d := cmp.Diff(want, keys); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestCompare compares the episodes of two validations task by task, and tells why it cannot.
func TestCompare(t *testing.T) {
	open := func(name string, solved int) *Run {
		f := newFolder(t, name)
		f.metrics(steps(1, 24)...)
		f.checkpoint(rundir.State{Step: 24, Finished: true})
		if solved >= 0 {
			check(t, f.WriteValidation(rundir.LabelAfter, "maze", episodes(solved)))
		}
		r, err := Open(f.Dir)
		check(t, err)
		return r
	}
	c, err := Compare([]*Run{open("a", 2), open("b", 4), open("none", -1)})
	check(t, err)
	if len(c.Pairs) != 2 || c.Pairs[0].Comparison == nil || c.Pairs[1].Comparison != nil {
		t.Fatalf("pairs %+v", c.Pairs)
	}
	got := c.Pairs[0].Comparison
	if got.Tasks != 3 || got.Better != 1 || got.Worse != 0 || math.Abs(got.Metrics["success_rate"].Difference-1./3) > 1e-9 {
		t.Errorf("comparison %+v", got)
	}
	if !strings.Contains(c.Pairs[1].Missing, "none has not kept the episodes") {
		t.Errorf("missing: %q", c.Pairs[1].Missing)
	}
	text := c.String()
	for _, want := range []string{"0 settings differ", "B scores better on 1", "no comparison by tasks in maze", "0.943 - 1.000", "whose interval contains 0 may be chance"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text does not contain %q:\n%s", want, text)
		}
	}
	const different = "the last validations are of different steps: 24 and 8"
	if strings.Contains(text, "different steps") {
		t.Errorf("the text tells the steps of equal ones apart:\n%s", text)
	}
	c.Results[slices.IndexFunc(c.Results, func(r RunResult) bool { return r.Run == "b" })].Step = 8
	if text = c.String(); !strings.Contains(text, different) {
		t.Errorf("the text does not contain %q:\n%s", different, text)
	}
}

// TestSize counts the bytes of a folder that loses files meanwhile.
func TestSize(t *testing.T) {
	dir := t.TempDir()
	check(t, errors.Join(os.Mkdir(filepath.Join(dir, "a"), 0o755), os.WriteFile(filepath.Join(dir, "a", "b"), make([]byte, 1234), 0o644)))
	check(t, os.Symlink("gone", filepath.Join(dir, "link")))
	if n, err := Size(dir); n != 1234 || err != nil {
		t.Errorf("Size = %d, %v, want 1234", n, err)
	}
}
