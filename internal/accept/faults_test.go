package main

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/env/fault"
)

func TestFaultsJudge(t *testing.T) {
	for _, c := range []struct {
		name  string
		runs  []FaultRun
		short bool
		kept  bool
	}{
		{"all well", []FaultRun{{After: 1}, {After: .9}, {Share: mildShare, After: .9}, {Share: mildShare, After: .9}, {Share: harshShare, After: .1}}, false, true},
		{"learns less", []FaultRun{{After: 1}, {Share: mildShare, After: .9}}, false, false},
		{"too short to judge", []FaultRun{{After: 1}, {Share: mildShare, After: .2}}, true, true},
		{"learned from a dropped episode", []FaultRun{{After: 1}, {Share: mildShare, After: 1}, {Share: harshShare, Faulty: []string{"x"}}}, true, false},
	} {
		f := Faults{Runs: c.runs, Judged: !c.short}
		if f.judge(); f.kept() != c.kept {
			t.Errorf("%s: got kept %t, want %t for %+v", c.name, f.kept(), c.kept, f)
		}
		var out strings.Builder
		if err := f.print(&out); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "NOT kept") == c.kept {
			t.Errorf("%s: want \"NOT kept\" %t in the report\n%s", c.name, !c.kept, &out)
		}
	}
	if _, err := fault.Parse(faultsAt(harshShare, 3)); err != nil {
		t.Error(err)
	}
}

// TestFaultsRuns checks that the longest runs come first and that shares above mildShare get one seed.
func TestFaultsRuns(t *testing.T) {
	for _, c := range []struct {
		args  string
		want  string
		whole bool
	}{
		{"", "0.05/1 0.01/1 0.01/2 0.01/3 0/1 0/2 0/3", true},
		{"--seeds 1", "0.05/1 0.01/1 0/1", true},
		{"--rates 5", "0.05/1", false},
		{"--rates 1,0 --seeds 2", "0.01/1 0.01/2 0/1 0/2", true},
		{"--rates 0,0.5", "0.005/1 0.005/2 0.005/3 0/1 0/2 0/3", false},
		{"--rates 0,1 --steps 2 --seeds 1", "0.01/1 0/1", false},
		{"--rates 0,1 --set rollout.group_size=2 --seeds 1", "0.01/1 0/1", false},
	} {
		var o options
		f := flag.NewFlagSet("", flag.ContinueOnError)
		faultFlags(f, &o)
		seedsFlag(f, &o, 3)
		if err := f.Parse(strings.Fields(c.args)); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range o.faultRuns() {
			got = append(got, fmt.Sprintf("%g/%d", r.Share, r.Seed))
		}
		if strings.Join(got, " ") != c.want || o.judgesSuccess() != c.whole {
			t.Errorf("%s: got runs %s, want %s; got judgesSuccess %t, want %t", c.args, got, c.want, o.judgesSuccess(), c.whole)
		}
	}
}

// TestReadRunFindsFaults checks that readRun compares a run's records with the proxy's counts, and the run's updates with the run's episodes.
func TestReadRunFindsFaults(t *testing.T) {
	dir := t.TempDir()
	episode := func(o data.Outcome, mask ...uint8) *data.Episode {
		return &data.Episode{
			Task: data.Task{ID: "maze_1", Env: "maze"}, UID: "u", Outcome: o, Tokens: make([]int32, len(mask)), Mask: mask, LogProbs: make([]float32, len(mask)),
			Turns: []data.Turn{{Start: 1, End: len(mask)}},
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "rollouts"), 0o755); err != nil {
		t.Fatal(err)
	}
	err := dump.WriteFile(filepath.Join(dir, "rollouts", "step_1.jsonl"), dump.Header{}, []*data.Episode{
		episode(data.Success, 0, 1, 1), episode(data.EnvError, 0, 1, 1, 1, 1),
	})
	if err != nil {
		t.Fatal(err)
	}
	err = dump.WriteFile(filepath.Join(dir, "rollouts", "step_2.jsonl"), dump.Header{}, []*data.Episode{episode(data.Success, 0, 1, 1)})
	if err != nil {
		t.Fatal(err)
	}
	const before, step = `{"step":0,"val/maze/success_rate":0.25,"servers/faults/timeout":2,"servers/faults":2,"servers/requests":900}` + "\n",
		`{"step":1,"val/maze/success_rate":0.75,"rollout/dropped":1,"rollout/replays":3,"rollout/turns":4,"servers/requests":10,"servers/faults":3,"servers/faults/timeout":1,"servers/faults/http_500":2,"state_tokens/total":TOKENS}` + "\n"
	const next = `{"step":2,"rollout/dropped":0,"rollout/turns":4,"servers/requests":10,"state_tokens/total":2}` + "\n"
	for tokens, c := range map[string]struct {
		injected map[string]int64
		faulty   int
	}{
		"2": {map[string]int64{"timeout": 3, "http_500": 2}, 0},
		"6": {map[string]int64{"timeout": 3, "http_500": 2}, 1}, // the update includes a dropped episode
		"1": {map[string]int64{"timeout": 2, "http_500": 2}, 2},
	} {
		if err := os.WriteFile(filepath.Join(dir, "metrics.jsonl"), []byte(before+strings.Replace(step, "TOKENS", tokens, 1)+next), 0o644); err != nil {
			t.Fatal(err)
		}
		r := FaultRun{Injected: c.injected}
		if err := r.readRun(dir); err != nil {
			t.Fatal(err)
		}
		if len(r.Faulty) != c.faulty || r.Dropped != 1 || r.Replays != 3 || r.PerTurn != 2.5 || math.Abs(r.After-.75) > 1e-9 || r.Before != .25 {
			t.Errorf("%s tokens: got %+v, want %d faults", tokens, r, c.faulty)
		}
	}
}
