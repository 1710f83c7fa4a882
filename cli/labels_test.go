package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/internal/errext"
)

// labelledRun has two [[env]] tables with the same environment and the same tasks.
var labelledRun = func() string {
	text, rest, _ := strings.Cut(mixtureRun, "[[env]]\n")
	_, rest, _ = strings.Cut(rest, "[data]\n")
	return text + `[[env]]
name = "maze"
tasks = "1-2"
val_tasks = "16"
max_turns = 2
format = "react"
instruction = "Walk."
[[env]]
name = "maze"
label = "tags"
tasks = "1-2"
val_tasks = "16-17"
max_turns = 3
format = "action_tags"
instruction = "Go."
[data]
` + rest
}()

// TestTablesOfOneEnvironment checks that two tables of one environment have separate formats, turn limits, draws, metrics
// and validations, also after a resume.
func TestTablesOfOneEnvironment(t *testing.T) {
	instructions := map[string]string{"maze": "Walk.", "tags": "Go."}
	groups, seeds := map[string]string{}, map[uint64]bool{}
	out, whole, lines, drawn := playedTwice(t, labelledRun, map[string]int{"maze": 2, "tags": 3}, func(step int, ep *data.Episode) {
		table, group := ep.Task.Table(), fmt.Sprint(step, " ", ep.UID)
		if before, ok := groups[group]; ok && before != table || seeds[ep.Seed] {
			t.Errorf("step %d: group %s belongs to the tables %q and %q, or two episodes have the same seed", step, ep.UID, before, table)
		}
		groups[group], seeds[ep.Seed] = table, true
		if ep.Task.Env != "maze" || !strings.Contains(ep.Instruction, instructions[table]) {
			t.Errorf("the instruction of environment %s in table %s is %q", ep.Task.Env, table, ep.Instruction)
		}
	})
	mustContain(t, "stdout", out, "maze", "tags", "overall")
	if drawn["maze"] == 0 || drawn["tags"] == 0 || drawn["maze"]+drawn["tags"] != 32 {
		t.Errorf("drawn tasks: %v", drawn)
	}
	for name, want := range map[string]float64{"val/maze/episodes": 1, "val/tags/episodes": 2, "val/overall/episodes": 3} {
		if lines[3][name] != want {
			t.Errorf("%s is %v, want %g", name, lines[3][name], want)
		}
	}
	for table, want := range map[string]int{"maze": 1, "tags": 2} {
		if n := len(episodesOf(t, filepath.Join(whole, "runs/mix/rollouts/val_after_"+table+".jsonl"))); n != want {
			t.Errorf("%d validation episodes of %s, want %d", n, table, want)
		}
	}

	actor := filepath.Join("runs", "mix", "checkpoints", "step_000004", "actor")
	code, out, stderr := inProcess(t, whole, "rollout", "run.toml", "--env", "tags", "--model", actor, "--dump", "tags.jsonl")
	if code != 0 || !strings.HasPrefix(out, "tags.jsonl: 2 of 2 episodes") {
		t.Fatalf("exit code %d\n%s%s", code, out, stderr)
	}
	d, err := dump.Open(filepath.Join(whole, "tags.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if o := d.Header().Options; o["env.name"] != "maze" || o["env.format"] != "action_tags" || fmt.Sprint(o["env.max_turns"]) != "3" {
		t.Errorf("with --env tags: got the options %v, want environment maze, format action_tags and 3 turns", o)
	}
	code, _, stderr = inProcess(t, whole, "eval", "run.toml", "--model", actor)
	if code != int(errext.Usage) || !strings.Contains(stderr, "--env: maze, tags") {
		t.Errorf("without --env: exit code %d\n%s", code, stderr)
	}
}
