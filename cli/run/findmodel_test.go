package run

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/hub"
	"github.com/openmanus/openmanus/agent/llm/hub/hubtest"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
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
	if err := os.MkdirAll(h.Path("acme/site"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, h.Dir, "acme/site/config.toml", "") // not a run, so acme/absent can be a model of the hub
	writeRun(t, h.Path("runs/local"), 1, 1)          // the folder "local" has precedence
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
	h.Getenv = func(key string) string { return map[string]string{"HF_HUB_CACHE": "hub", "HF_HUB_OFFLINE": "1"}[key] }

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
		"runs/gone":        {code: errext.Model, words: "`openmanus runs` lists the runs: empty, first, local, pruned, unvalidated"},
		"runs/gone@best":   {code: errext.Model, words: "no run runs/gone"},
		"elsewhere/gone":   {code: errext.Model, words: "`openmanus runs elsewhere` lists the runs: second"},
		"acme/absent":      {code: errext.Model, words: "HF_HUB_OFFLINE"},
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

// TestFindModelFetches checks that a model of the hub is fetched when it is missing, with the base of adapters, and that
// LookUpModel fetches nothing.
func TestFindModelFetches(t *testing.T) {
	s := hubtest.New(t)
	s.AddFolder(t, "acme/tiny", copyTinyModel(t))
	h := newTestHost(t)
	h.Getenv = func(key string) string { return s.Environment("hub")[key] }

	th, err := torch.NewThread(torch.Device{})
	if err != nil {
		t.Fatal(err)
	}
	defer th.Close()
	b, err := model.Open(t.Context(), th, copyTinyModel(t), model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Model.AddLoRA(t.Context(), model.LoRA{Rank: 2, Alpha: 4, Targets: []string{"q_proj"}, Base: "acme/tiny"}, 1); err != nil {
		t.Fatal(err)
	}
	adapters := t.TempDir()
	if err := b.SaveAdapters(t.Context(), adapters); err != nil {
		t.Fatal(err)
	}
	s.AddFolder(t, "acme/adapters", adapters)

	if _, err := LookUpModel(&h.Host, "acme/adapters"); !errors.Is(err, hub.ErrNotCached) || !strings.Contains(err.Error(), "openmanus model fetch acme/adapters") {
		t.Errorf("LookUpModel: %v", err)
	}
	if len(s.Requests()) > 0 {
		t.Error("LookUpModel sent a request")
	}
	if err := os.Mkdir(h.Path("models"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, h.Dir, "models/some.gguf", "GGUF")
	if _, err := FindModel(t.Context(), &h.Host, "models/gone"); CodeOf(t.Context(), err) != errext.Model || !strings.Contains(err.Error(), "some.gguf") || !strings.Contains(err.Error(), "the hub") {
		t.Errorf("a path that can be a model of the hub: %v", err)
	}
	var open Closers
	opened, err := OpenModel(t.Context(), &h.Host, &open, configs.Model{Path: "acme/adapters", ComputeDtype: "float32"}, model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !opened.Model.HasLoRA() {
		t.Error("the adapters were not opened")
	}
	if err := open.Close(); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"acme/adapters", "acme/tiny"} {
		if f, err := LookUpModel(&h.Host, name); err != nil || !strings.HasPrefix(f.Path, h.Path("hub")) {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
	before := len(s.Requests())
	if d, err := DescribeModel(t.Context(), &h.Host, "acme/adapters"); err != nil || d.Adapters == nil || d.Parameters == 0 {
		t.Errorf("%+v, %v", d, err)
	}
	if len(s.Requests()) != before {
		t.Error("a model in the cache was requested again")
	}
	if _, err := FindModel(t.Context(), &h.Host, "acme/gone"); CodeOf(t.Context(), err) != errext.Model || !strings.Contains(err.Error(), "HF_TOKEN") {
		t.Errorf("a missing model: %v", err)
	}
}

// TestMovedAdapters opens the adapters of a run that was moved, whose adapter_config.json names the base at its old place.
func TestMovedAdapters(t *testing.T) {
	h := newTestHost(t)
	writeRun(t, h.Path("runs/old"), 0, 1)
	th, err := torch.NewThread(torch.Device{})
	if err != nil {
		t.Fatal(err)
	}
	defer th.Close()
	b, err := model.Open(t.Context(), th, copyTinyModel(t), model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	old := &rundir.Folder{Dir: h.Path("runs/old")}
	if err := b.Save(t.Context(), old.Base(), torch.Float32); err != nil {
		t.Fatal(err)
	}
	if err := b.Model.AddLoRA(t.Context(), model.LoRA{Rank: 2, Alpha: 4, Targets: []string{"q_proj"}, Base: old.Base()}, 1); err != nil {
		t.Fatal(err)
	}
	actor := filepath.Join(old.Checkpoints(), "step_000001", rundir.ActorFolder)
	if err := os.RemoveAll(actor); err != nil {
		t.Fatal(err)
	}
	if err := b.SaveAdapters(t.Context(), actor); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(old.Dir, h.Path("runs/new")); err != nil {
		t.Fatal(err)
	}
	if d, err := DescribeModel(t.Context(), &h.Host, "new"); err != nil || d.Adapters == nil {
		t.Errorf("%+v, %v", d, err)
	}
}
