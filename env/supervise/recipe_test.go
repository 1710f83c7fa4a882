package supervise

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// checkout creates a folder with files. A name with a trailing slash is a folder.
func checkout(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		path := filepath.Join(dir, f)
		if strings.HasSuffix(f, "/") {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const withAll = "agentenv-textcraft/ agentenv-babyai/ agentenv-sciworld/ agentenv-sqlgym/ agentenv-tool/ agentenv-alfworld/ " +
	"agentenv-webshop/ agentenv-webarena/ agentenv-searchqa/ agentenv-gaia/ " +
	"agentenv-lmrlgym/lmrlgym/LLM_RL/ agentenv-lmrlgym/lmrlgym/llm_rl_scripts/ bird/ bin/java"

// TestRecipes checks the commands of the recipes against sections 1.1 and 6.2 of the protocol.
func TestRecipes(t *testing.T) {
	dir := checkout(t, strings.Fields(withAll)...)
	environ := []string{"PATH=" + filepath.Join(dir, "bin"), "AGENTENV_SQLGYM_BIRD_PATH=" + filepath.Join(dir, "bird")}
	type want struct {
		module, folder string
		path           string            // further import paths
		set            map[string]string // variables in addition to PYTHONPATH, PYTHONUNBUFFERED and PYTHONHASHSEED
	}
	lmrl := want{"agentenv_lmrlgym:app", "agentenv-lmrlgym", "agentenv-lmrlgym/lmrlgym", nil}
	project := map[string]string{"PROJECT_PATH": dir + "/agentenv-tool/Toolusage"}
	tools := func(name string) want {
		return want{"agentenv_" + name + ":app", "agentenv-tool", "agentenv-tool/Toolusage/toolusage", project}
	}
	wants := map[string]want{
		"textcraft": {"agentenv_textcraft:app", "agentenv-textcraft", "", nil},
		"babyai":    {"agentenv_babyai:app", "agentenv-babyai", "", nil},
		"sciworld":  {"agentenv_sciworld:app", "agentenv-sciworld", "", nil},
		"sqlgym": {"agentenv_sqlgym:app", "agentenv-sqlgym", "",
			map[string]string{"AGENTENV_SQLGYM_BIRD_PATH": filepath.Join(dir, "bird")}},
		"maze": lmrl, "wordle": lmrl,
		"weather": tools("weather"), "movie": tools("movie"), "academia": tools("academia"), "todo": tools("todo"), "sheet": tools("sheet"),
		"alfworld": {"agentenv_alfworld:app", "agentenv-alfworld", "", nil},
		"webshop":  {"agentenv_webshop:app", "agentenv-webshop", "agentenv-webshop/webshop", nil},
		"webarena": {"agentenv_webarena:app", "agentenv-webarena", "", nil},
		"searchqa": {"agentenv_searchqa:app", "agentenv-searchqa", "", nil},
		"gaia":     {"agentenv_gaia:app", "agentenv-gaia", "", nil},
	}
	for name, w := range wants {
		t.Run(name, func(t *testing.T) {
			p, err := NewPlan(name, Launch{Checkout: dir}, environ)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, w.folder)
			if w.path != "" {
				path += ":" + filepath.Join(dir, w.path)
			}
			set := map[string]string{"PYTHONUNBUFFERED": "1", "PYTHONHASHSEED": "0", "PYTHONPATH": path}
			for k, v := range w.set {
				set[k] = v
			}
			c := Command{
				Args: []string{"python3", "-m", "uvicorn", w.module, "--host", "{host}", "--port", "{port}", "--no-access-log"},
				Dir:  filepath.Join(dir, w.folder), Env: environ, Set: set,
			}
			if d := cmp.Diff(c, p.Command); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if p.StartTimeout < DefaultStartTimeout || p.StartTimeout > time.Hour {
				t.Errorf("the start timeout is %v, want from DefaultStartTimeout to 1 h", p.StartTimeout)
			}
		})
	}
}

func TestPlanOverrides(t *testing.T) {
	dir := checkout(t, "agentenv-textcraft/.venv/bin/python", "other/bin/python", "folder/")
	made := filepath.Join(dir, "agentenv-textcraft/.venv")
	environ := []string{"PATH=/bin", "PYTHONPATH=/mine"}
	own := []string{"{python}", "-m", "serve", "{checkout}/x", "--port={port}"}
	tests := []struct {
		name  string
		l     Launch
		args  string // the command, in which the path of the checkout is removed
		dir   string
		wants map[string]string
	}{
		{"the venv of install", Launch{Checkout: dir},
			"/agentenv-textcraft/.venv/bin/python -m uvicorn agentenv_textcraft:app --host {host} --port {port} --no-access-log", "/agentenv-textcraft",
			map[string]string{"VIRTUAL_ENV": made, "PATH": made + "/bin:/bin", "PYTHONPATH": dir + "/agentenv-textcraft:/mine", "PYTHONHASHSEED": "0"}},
		{"another venv", Launch{Checkout: dir, Venv: filepath.Join(dir, "other")},
			"/other/bin/python -m uvicorn agentenv_textcraft:app --host {host} --port {port} --no-access-log", "/agentenv-textcraft",
			map[string]string{"VIRTUAL_ENV": dir + "/other", "PATH": dir + "/other/bin:/bin"}},
		{"an interpreter", Launch{Checkout: dir, Python: "python3.9"},
			"python3.9 -m uvicorn agentenv_textcraft:app --host {host} --port {port} --no-access-log", "/agentenv-textcraft",
			map[string]string{"VIRTUAL_ENV": "", "PATH": ""}},
		{"every setting", Launch{Checkout: dir, Command: own, Workdir: filepath.Join(dir, "folder"), Set: map[string]string{"PYTHONHASHSEED": "7", "X": "{checkout}/{port}"}},
			"/agentenv-textcraft/.venv/bin/python -m serve /x --port={port}", "/folder",
			map[string]string{"PYTHONHASHSEED": "7", "X": dir + "/{port}"}},
		{"a command alone", Launch{Command: []string{"textcraft"}},
			"textcraft --host {host} --port {port}", "", map[string]string{"PYTHONPATH": "", "PYTHONHASHSEED": "0"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p, err := NewPlan("textcraft", test.l, environ)
			if err != nil {
				t.Fatal(err)
			}
			c := p.Command
			if got := strings.ReplaceAll(strings.Join(c.Args, " "), dir, ""); got != test.args {
				t.Errorf("the command is %s", got)
			}
			if got := strings.TrimPrefix(c.Dir, dir); got != test.dir {
				t.Errorf("the working folder is %s", got)
			}
			for k, v := range test.wants {
				if c.Set[k] != v {
					t.Errorf("%s is %q, want %q", k, c.Set[k], v)
				}
			}
		})
	}
}

func TestPlanFaults(t *testing.T) {
	dir := checkout(t, "agentenv-textcraft/", "agentenv-sqlgym/", "agentenv-sciworld/", "agentenv-lmrlgym/lmrlgym/", "file")
	tests := []struct {
		name, env string
		l         Launch
		want      string
	}{
		{"no checkout", "textcraft", Launch{}, "no checkout of AgentGym: give the folder that contains agentenv-textcraft"},
		{"wrong checkout", "textcraft", Launch{Checkout: filepath.Join(dir, "agentenv-textcraft")}, "no folder agentenv-textcraft in"},
		{"folder of another environment", "babyai", Launch{Checkout: dir}, "no folder agentenv-babyai in"},
		{"submodule not fetched", "wordle", Launch{Checkout: dir}, "agentenv-lmrlgym/lmrlgym in " + dir + " is empty: fetch the checkout's submodules"},
		{"BIRD path unset", "sqlgym", Launch{Checkout: dir}, "AGENTENV_SQLGYM_BIRD_PATH is not set"},
		{"BIRD path wrong", "sqlgym", Launch{Checkout: dir, Set: map[string]string{"AGENTENV_SQLGYM_BIRD_PATH": filepath.Join(dir, "file")}}, "no folder " + filepath.Join(dir, "file")},
		{"no Java", "sciworld", Launch{Checkout: dir, Set: map[string]string{"PATH": dir}}, `"java" in PATH, which the server needs`},
		{"no recipe", "sokoban", Launch{Checkout: dir}, "no recipe: give a command"},
		{"no venv", "textcraft", Launch{Checkout: dir, Venv: dir}, "has no bin/python"},
		{"venv and python", "textcraft", Launch{Checkout: dir, Venv: dir, Python: "p"}, "both python and venv"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := NewPlan(test.env, test.l, []string{"PATH=/bin"})
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "launch "+test.env+": ") {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestVenvIn(t *testing.T) {
	dir := checkout(t, "agentenv-textcraft/", "agentenv-tool/.venv/bin/python", "agentenv-lmrlgym/lmrlgym/")
	for name, want := range map[string]string{"textcraft": "", "weather": filepath.Join(dir, "agentenv-tool", ".venv"), "movie": filepath.Join(dir, "agentenv-tool", ".venv")} {
		if got, err := VenvIn(name, dir); got != want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{"babyai": "no folder agentenv-babyai", "maze": "git submodule update --init", "chess": "no recipe for chess"} {
		if _, err := VenvIn(name, dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
