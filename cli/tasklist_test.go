package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/internal/errext"
)

// TestEmptyTaskList checks that the error for an empty task list names the key and occurs before a model is created or opened.
func TestEmptyTaskList(t *testing.T) {
	for _, args := range [][]string{
		{"train", "--set", "env.maze.tasks=25", "--set", "env.maze.skip_tasks=25"},
		{"train", "run.toml", "--set", "env.maze.val_tasks=16", "--set", "env.maze.skip_tasks=16"},
		{"sft", "run.toml", "--set", "env.maze.tasks=17", "--set", "env.maze.skip_tasks=17"},
	} {
		ts := newTestState(t, args...)
		writeFile(t, ts.Dir, "run.toml", tinyRun)
		if code := Main(ts.State); code != int(errext.Input) {
			t.Fatalf("%q: exit code %d:\n%s", args, code, ts.err.String())
		}
		mustContain(t, "stderr", ts.err.String(), "tasks: env.maze.skip_tasks skips all 1 tasks", "skip fewer")
	}
}

// TestSkipTasks checks that the error lists the rows that every server rejects and the flag that skips them, and that the
// command with this flag plays the other rows.
func TestSkipTasks(t *testing.T) {
	tiny := tinyModel(t)
	play := func(more ...string) (*testState, int) {
		ts := newTestState(t, append(strings.Fields("eval --env maze --tasks rows.jsonl --max-turns 1 --max-new-tokens 2 --json --quiet --model "+tiny), more...)...)
		writeFile(t, ts.Dir, "rows.jsonl", `{"item_id":"lmrlgym_maze_25","conversations":[]}`+"\n"+`{"item_id":"lmrlgym_maze_17","conversations":[]}`+"\n")
		return ts, Main(ts.State)
	}
	ts, code := play()
	if code != int(errext.Input) {
		t.Errorf("exit code %d", code)
	}
	mustContain(t, "stderr", ts.err.String(), "--tasks: task lmrlgym_maze_25", "25 to --skip-tasks")
	if ts, code = play("--skip-tasks", "25"); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, ts.err.String())
	}
	mustContain(t, "stdout", ts.out.String(), `"tasks":1,`)
}

// TestTaskLimit checks that a limit selects the same tasks for the same seed.
func TestTaskLimit(t *testing.T) {
	ts := newTestState(t)
	spec, err := env.Lookup("maze")
	if err != nil {
		t.Fatal(err)
	}
	pick := func(seed uint64) (is []int) {
		tasks, err := run.LoadTasks(t.Context(), &ts.Host, spec, run.ConfiguredTasks(configs.Env{Name: "maze"}, "tasks", []string{"0-24"}, 5, configs.Data{Seed: seed}))
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			is = append(is, task.Index)
		}
		return is
	}
	one := pick(1)
	if len(one) != 5 || !slices.Equal(one, pick(1)) || slices.Equal(one, pick(2)) || slices.Equal(one, []int{0, 1, 2, 3, 4}) {
		t.Errorf("seed 1 selects %v, seed 1 again %v, seed 2 %v", one, pick(1), pick(2))
	}
}
