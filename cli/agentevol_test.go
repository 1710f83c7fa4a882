package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/algo/track"
)

// TestTrainAgentEvol checks that AgentEvol trains on the built-in maze and resumes with all kept episodes. Every step
// trains on the two recorded solutions and on all successful episodes up to this step.
func TestTrainAgentEvol(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	for _, steps := range []string{"2", "3"} {
		code, _, stderr := inProcess(t, dir, "train", "run.toml", "--set", "algo.name=agentevol", "--set", "actor.mini_batch_size=2",
			"--set", "actor.shuffle=true", "--set", "actor.ppo_epochs=2", "--set", "trainer.total_steps="+steps)
		if code != 0 {
			t.Fatalf("exit code %d\n%s", code, stderr)
		}
		if !strings.Contains(stderr, "kept ") {
			t.Errorf("stderr lacks the number of kept episodes:\n%s", stderr)
		}
	}
	last, stored := 0, 0.0
	err := track.Read(filepath.Join(dir, "runs", "tiny", "metrics.jsonl"), func(l track.Line) error {
		step, m := l.Step, l.Metrics
		if l.Phase != track.PhaseTrain || step == 0 {
			return nil
		}
		if last++; step != last {
			t.Errorf("got the line of step %d after %d other lines", step, last-1)
		}
		if stored += m["agentevol/maze/kept"]; m["agentevol/stored"] != stored || m["agentevol/trajectories"] != stored+2 {
			t.Errorf("step %d: got %v stored episodes and %v trajectories in the update; want %v stored episodes, and two more trajectories", step, m["agentevol/stored"], m["agentevol/trajectories"], stored)
		}
		if !(m["agentevol/loss"] > 0) {
			t.Errorf("step %d: the loss is %v", step, m["agentevol/loss"])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if last != 3 {
		t.Errorf("%d steps, want 3", last)
	}
}
