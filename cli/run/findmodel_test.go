package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/internal/errext"
)

// writeRun writes a run folder with the checkpoints of the given steps, of which best
// is the best one; 0: no validation has run.
func writeRun(t *testing.T, dir string, best int, steps ...int) {
	t.Helper()
	folder := &rundir.Folder{Dir: dir}
	if err := folder.Make(); err != nil {
		t.Fatal(err)
	}
	for _, step := range steps {
		at := filepath.Join(folder.Checkpoints(), "step_00000"+string(rune('0'+step)))
		actor := filepath.Join(at, rundir.ActorFolder)
		if err := os.CopyFS(actor, os.DirFS(copyTinyModel(t))); err != nil {
			t.Fatal(err)
		}
		cfg, err := Schema.Load("run.toml", []byte(tinyRun), nil)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, at, rundir.ConfigFile, string(cfg.Marshal()))
		state := rundir.State{Step: step}
		if best > 0 {
			state.Best = &rundir.Best{Metric: "success", Step: best}
		}
		if err := state.Write(at); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFindModel(t *testing.T) {
	h := newTestHost(t)
	tiny := copyTinyModel(t)
	if err := os.CopyFS(h.Path("local"), os.DirFS(tiny)); err != nil {
		t.Fatal(err)
	}
	writeFile(t, h.Dir, "some.gguf", "GGUF")
	writeRun(t, h.Path("runs/first"), 2, 1, 2, 4)
	writeRun(t, h.Path("runs/unvalidated"), 0, 1, 3)
	writeRun(t, h.Path("runs/pruned"), 1, 2, 3)
	writeRun(t, h.Path("elsewhere/second"), 1, 1)
	writeRun(t, h.Path("runs/empty"), 0)
	writeRun(t, h.Path("runs/local"), 1, 1) // the folder "local" has precedence
	if err := os.Symlink("checkpoints/step_000002", h.Path("runs/first/best")); err != nil {
		t.Fatal(err)
	}
	hub := filepath.Join(h.Dir, "hub", "models--acme--tiny")
	for _, commit := range []string{"abc", "def"} {
		if err := os.CopyFS(filepath.Join(hub, "snapshots", commit), os.DirFS(tiny)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(hub, "refs"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, hub, "refs/main", "abc")
	writeFile(t, hub, "refs/v1", "def\n")
	h.Getenv = func(key string) string { return map[string]string{"HF_HUB_CACHE": "hub"}[key] }

	for name, want := range map[string]struct {
		path string // relative to the folder of the host; "": an error with the code and the words
		run  string
		step int

		code  errext.ExitCode
		words string
	}{
		"local":                              {path: "local"},
		"./some.gguf":                        {path: "some.gguf"},
		"first":                              {path: "runs/first/checkpoints/step_000002/actor", run: "runs/first", step: 2},
		"runs/first":                         {path: "runs/first/checkpoints/step_000002/actor", run: "runs/first", step: 2},
		"runs/first/":                        {path: "runs/first/checkpoints/step_000002/actor", run: "runs/first", step: 2},
		"first@best":                         {path: "runs/first/checkpoints/step_000002/actor", run: "runs/first", step: 2},
		"first@latest":                       {path: "runs/first/checkpoints/step_000004/actor", run: "runs/first", step: 4},
		"runs/first@1":                       {path: "runs/first/checkpoints/step_000001/actor", run: "runs/first", step: 1},
		"first@step_000001":                  {path: "runs/first/checkpoints/step_000001/actor", run: "runs/first", step: 1},
		"runs/first/best":                    {path: "runs/first/best/actor", run: "runs/first", step: 2},
		"runs/first/checkpoints/step_000004": {path: "runs/first/checkpoints/step_000004/actor", run: "runs/first", step: 4},
		"runs/first/checkpoints/step_000004/actor": {path: "runs/first/checkpoints/step_000004/actor", run: "runs/first", step: 4},
		"unvalidated":      {path: "runs/unvalidated/checkpoints/step_000003/actor", run: "runs/unvalidated", step: 3},
		"pruned":           {path: "runs/pruned/checkpoints/step_000003/actor", run: "runs/pruned", step: 3},
		"elsewhere/second": {path: "elsewhere/second/checkpoints/step_000001/actor", run: "elsewhere/second", step: 1},
		"runs/local":       {path: "runs/local/checkpoints/step_000001/actor", run: "runs/local", step: 1},
		"acme/tiny":        {path: "hub/models--acme--tiny/snapshots/abc"},
		"acme/tiny@v1":     {path: "hub/models--acme--tiny/snapshots/def"},
		"acme/tiny@def":    {path: "hub/models--acme--tiny/snapshots/def"},
		"acme/tiny@v2":     {code: errext.Model, words: "acme/tiny"},
		"acme/gone":        {code: errext.Model, words: "acme/gone"},
		"nowhere":          {code: errext.Model, words: "nowhere"},
		"second":           {code: errext.Model, words: "second"},
		"empty":            {code: errext.Model, words: "no checkpoint"},
		"first@3":          {code: errext.Model, words: "1, 2, 4"},
		"first@newest":     {code: errext.Usage, words: "latest"},
		"unvalidated@best": {code: errext.Model, words: "no validation"},
		"pruned@best":      {code: errext.Model, words: "2, 3"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := FindModel(t.Context(), &h.Host, name)
			if want.path == "" {
				if err == nil || CodeOf(t.Context(), err) != want.code || !strings.Contains(err.Error(), want.words) {
					t.Fatalf("got %+v, %v, want an error of code %d with %q", got, err, want.code, want.words)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Name != name || filepath.Clean(got.Path) != filepath.Join(h.Dir, want.path) {
				t.Errorf("got %s, want %s", got.Path, want.path)
			}
			if path := ModelPath(&h.Host, name); path != got.Path {
				t.Errorf("ModelPath returns %s", path)
			}
			if want.run == "" {
				if got.Run != nil || got.Config != nil {
					t.Errorf("got the run %v", got.Run)
				}
				return
			}
			if got.Run == nil || got.Run.Dir != filepath.Join(h.Dir, want.run) || got.Step != want.step || got.Config == nil || len(got.Config.Env) == 0 {
				t.Errorf("got %+v, want step %d of %s", got, want.step, want.run)
			}
		})
	}
}
