package pace

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/openmanus/openmanus/algo"
)

func TestSteps(t *testing.T) {
	var p Steps
	at := time.Unix(1e9, 0)
	if _, _, ok := p.Left(at, time.Minute); ok {
		t.Error("a remaining time before the first step")
	}
	p.End(at, 7, 27) // step 7 began in an earlier process
	if _, _, ok := p.Left(at, 0); ok {
		t.Error("a remaining time after a step of an earlier process")
	}
	for step := 8; step <= 27; step++ {
		p.Phase(at, algo.Phase{Name: "gen", Step: step, Steps: 29})
		p.Phase(at.Add(time.Second), algo.Phase{Name: "update_actor", Step: step, Steps: 29})
		p.Phase(at.Add(time.Second), algo.Phase{Name: "save_checkpoint", Step: step - 1, Steps: 29})
		at = at.Add(time.Duration(step-7) * time.Second)
		p.End(at, step, 29)
	}
	if left, atLeast, _ := p.Left(at, 0); left != 33*time.Second || atLeast { // mean of the last eight steps (13 to 20 s), times 2
		t.Errorf("got %v, want 33s", left)
	}
	if left, _, _ := p.Left(at.Add(time.Hour), 0); left != 16500*time.Millisecond {
		t.Errorf("one hour into a step: got %v, want 16.5s, the time of one more step", left)
	}
	if left, _, _ := p.Left(at.Add(time.Hour), time.Minute); left != 76500*time.Millisecond {
		t.Errorf("one hour into a step whose phase takes a minute longer: got %v, want 1m16.5s", left)
	}
}

// TestFirstStep checks the estimate during the first step: none before a phase has a rate, and then a lower bound.
func TestFirstStep(t *testing.T) {
	at := time.Unix(1e9, 0)
	sampled := func() int { return 0 }
	var p *Steps
	for total, want := range map[int]time.Duration{128: 2 * time.Minute, 256: 0} {
		p = &Steps{}
		p.Phase(at.Add(-time.Minute), algo.Phase{Name: "testing", Of: "maze before", Total: 64, Sampled: sampled})
		if prior := p.Phase(at, algo.Phase{Name: "gen", Step: 1, Steps: 24, Total: total, Sampled: sampled}); prior != want {
			t.Errorf("%d episodes after a validation of 64 in a minute: the prior is %v, want %v", total, prior, want)
		}
	}
	for _, c := range []struct {
		passed    time.Duration // in the step
		next      string        // phase that begins
		phaseLeft time.Duration
		want      time.Duration // 0: unknown
	}{
		{10 * time.Second, "", 0, 0},
		{10 * time.Second, "", 90 * time.Second, 24*100*time.Second - 10*time.Second},
		{100 * time.Second, "update_actor", 0, 23 * 100 * time.Second},
		{110 * time.Second, "", 10 * time.Second, 24*120*time.Second - 110*time.Second},
	} {
		if c.next != "" {
			p.Phase(at.Add(c.passed), algo.Phase{Name: c.next, Step: 1, Steps: 24})
		}
		if left, atLeast, ok := p.Left(at.Add(c.passed), c.phaseLeft); left != c.want || ok != (c.want > 0) || atLeast != ok {
			t.Errorf("after %v with %v of the phase left: got %v, %t, %t, want at least %v", c.passed, c.phaseLeft, left, atLeast, ok, c.want)
		}
	}
}

// TestLoad checks that a resumed run has estimates from the lines of the earlier process.
func TestLoad(t *testing.T) {
	var p Steps
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	if err := p.Load(path); err != nil {
		t.Errorf("without metrics: %v", err)
	}
	text := `{"step":0,"phase":"train","timing_s/testing":9}
{"step":1,"phase":"train","timing_s/step":10,"timing_s/gen":6}
{"step":2,"phase":"train","timing_s/step":20,"timing_s/gen":12}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.Load(path); err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1e9, 0)
	if prior := p.Phase(at, algo.Phase{Name: "gen", Step: 3, Steps: 10}); prior != 12*time.Second {
		t.Errorf("playing takes %v, want 12s", prior)
	}
	if left, atLeast, ok := p.Left(at, 0); left != 120*time.Second || atLeast || !ok {
		t.Errorf("at the start of step 3 of 10: got %v, %t, %t, want 2m0s", left, atLeast, ok)
	}
}
