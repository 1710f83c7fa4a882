package run

import (
	"testing"

	"github.com/openmanus/openmanus/data/dump"
)

// TestEarlierGreedy checks that the options greedy and temperature of an earlier
// version are read as one key.
func TestEarlierGreedy(t *testing.T) {
	h := dump.Header{Options: map[string]any{
		"env": "maze", "tasks": "0-2", "skip_tasks": "", "greedy": true, "temperature": 1.0, "max_turns": 0, "dtype": "bfloat16",
		"episode": map[string]any{"MaxTurns": 15, "MaxNewTokens": 9, "MaxContext": 99, "Temperature": 1, "Greedy": true, "TopP": 1},
	}}
	r, err := readRecorded(h)
	if err != nil {
		t.Fatal(err)
	}
	e := r.Config.Env[0]
	if r.Config.Rollout.Val.Temperature != 0 || e.MaxTurns != 15 || e.SkipTasks != nil || e.ValTasks[0] != "0-2" || r.Config.Model.ComputeDtype != "bfloat16" {
		t.Errorf("%+v", r.Config)
	}
}
