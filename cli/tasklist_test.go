package cli

import (
	"testing"
)

// A list of which nothing is left ends the run before a model is made or
// opened, and says what to change.
func TestNoTaskIsLeft(t *testing.T) {
	for _, args := range [][]string{
		{"train", "--set", "env.maze.tasks=25", "--set", "env.maze.skip_tasks=25"},
		{"train", "run.toml", "--set", "env.maze.val_tasks=16", "--set", "env.maze.skip_tasks=16"},
		{"sft", "run.toml", "--set", "env.maze.tasks=17", "--set", "env.maze.skip_tasks=17"},
	} {
		ts := newTestState(t, args...)
		writeFile(t, ts.Dir, "run.toml", tinyRun)
		if code := Main(ts.State); code != int(ExitInput) {
			t.Fatalf("%q: exit code %d:\n%s", args, code, ts.err.String())
		}
		mustContain(t, "stderr", ts.err.String(), "tasks: env.maze.skip_tasks leaves none of the 1 tasks", "list others, or skip fewer")
	}
}
