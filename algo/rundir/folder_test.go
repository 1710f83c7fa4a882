package rundir

import (
	"os"
	"path/filepath"
	"testing"
)

// TestClear checks that Clear empties a run folder only if it contains no results.
func TestClear(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		keep  bool // argument keepServers of Clear
		want  bool
	}{
		"start":            {files: map[string]string{ConfigFile: "x", "run.log": "x", "metrics.jsonl": ""}, want: true},
		"server log":       {files: map[string]string{ConfigFile: "x", "servers/maze/1.log": "x"}, want: true},
		"server log kept":  {files: map[string]string{ConfigFile: "x", "servers/maze/1.log": "x"}, keep: true},
		"no server log":    {files: map[string]string{ConfigFile: "x", "servers/maze/1.log": ""}, keep: true, want: true},
		"base of adapters": {files: map[string]string{ConfigFile: "x", "base/model.safetensors": "x"}, want: true},
		"metrics":          {files: map[string]string{ConfigFile: "x", "metrics.jsonl": "x"}},
		"checkpoint":       {files: map[string]string{"checkpoints/step_000000/state.json": "x"}},
		"episodes":         {files: map[string]string{"rollouts/val_before_maze.jsonl": "x"}},
		"bad step":         {files: map[string]string{"bad-steps/1.json": "x"}},
		"other file":       {files: map[string]string{"notes.txt": "x"}},
		"other config":     {files: map[string]string{"old/" + ConfigFile: "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Folder{Dir: t.TempDir()}
			if err := r.Make(); err != nil {
				t.Fatal(err)
			}
			c.files[".lock"] = "1\n"
			for file, text := range c.files {
				path := filepath.Join(r.Dir, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := r.Clear(c.keep)
			if err != nil || got != c.want {
				t.Fatalf("Clear = %v, %v, want %v", got, err, c.want)
			}
			left, err := os.ReadDir(r.Dir)
			if err != nil {
				t.Fatal(err)
			}
			if got && (len(left) != 1 || left[0].Name() != ".lock") {
				t.Errorf("Clear left %v, want only the lock", left)
			}
			for file := range c.files {
				if _, err := os.Stat(filepath.Join(r.Dir, file)); err != nil && !c.want {
					t.Error(err)
				}
			}
		})
	}
}
