package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/env/check"
)

// playProgram is an environment variable that makes the test binary stand in for
// openmanus. Its value lists the parts that fail.
const playProgram = "ACCEPT_TEST_OPENMANUS"

func fakeOpenmanus(how string) {
	bad := func(what string) bool { return strings.Contains(how, what) }
	must := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	flag := func(name string) string {
		if i := slices.Index(os.Args, name); i > 0 && i+1 < len(os.Args) {
			return os.Args[i+1]
		}
		must(fmt.Errorf("no %s in %q", name, os.Args))
		return ""
	}
	switch strings.Join(os.Args[1:min(3, len(os.Args))], " ") {
	case "env install":
		if bad("install") {
			must(fmt.Errorf("pip has no network"))
		}
		if bad("registry") {
			time.Sleep(time.Hour) // the registry never answers
		}
		must(os.MkdirAll(filepath.Join(flag("--checkout"), "agentenv-textcraft", ".venv", "lib", "python3.11", "site-packages", "fastapi-0.1.dist-info"), 0o755))
	case "env up":
		if bad("orphan") {
			must(exec.Command("sleep", "600").Start())
		}
		fmt.Println("textcraft at http://127.0.0.1:" + flag("--base-port"))
		time.Sleep(time.Hour) // env up runs until it is killed
	case "env check":
		report := check.Report{Results: []check.Result{{Check: "greeting", Status: check.Pass}, {Check: "close", Status: check.Warn}}}
		if bad("check") {
			report.Results = append(report.Results, check.Result{Check: "step", Status: check.Fail, Expected: "this", Came: "that"})
		}
		must(json.NewEncoder(os.Stdout).Encode(report))
		if bad("check") {
			os.Exit(checkFailed)
		}
	default: // openmanus rollout CONFIG
		var config struct {
			Env []struct {
				Launch   bool
				Checkout string
				ValTasks string `toml:"val_tasks"`
				MaxTurns int    `toml:"max_turns"`
			}
		}
		_, err := toml.DecodeFile(os.Args[2], &config)
		must(err)
		if e := config.Env[0]; !e.Launch || !filepath.IsAbs(e.Checkout) || e.ValTasks != "0-2" || e.MaxTurns != gymTurns || flag("--samples") != "1" {
			must(fmt.Errorf("the configuration is %+v", config))
		}
		var episodes []*data.Episode
		for i := range 3 {
			episodes = append(episodes, gymEpisode(i))
		}
		if bad("shape") {
			episodes[1].Exchanges[0].Reply = `{"observation":"Got 1 stick"}`
		}
		must(dump.WriteFile(flag("--dump"), dump.Header{}, episodes))
	}
}

// gymEpisode is an episode of textcraft with two turns; the first was not sent to the server.
func gymEpisode(i int) *data.Episode {
	return &data.Episode{
		Task: data.Task{ID: "textcraft_" + strconv.Itoa(i), Env: "textcraft", Index: i}, UID: strconv.Itoa(i), Outcome: data.TurnLimit, Attempts: 1,
		Turns: []data.Turn{{Refused: true, Observation: "one action only"}, {Observation: "Got 1 stick"}},
		Exchanges: []data.Exchange{
			{Method: "POST", Path: "/step", Body: `{"action":"get 1 stick","id":0}`, Status: 200, Reply: `{"observation":"Got 1 stick","reward":0,"done":false}`},
		},
	}
}

// fakeCheckout makes a checkout with textcraft and with an empty submodule of lmrlgym.
func fakeCheckout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, folder := range []string{"agentenv-textcraft", "agentenv-lmrlgym/lmrlgym"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func tryGym(t *testing.T, how, checkout string, patience time.Duration, names ...string) (*AgentGym, string) {
	t.Helper()
	limit := gymLimit
	if strings.Contains(how, "registry") {
		limit = 100 * time.Millisecond
	}
	t.Setenv(playProgram, how)
	trial := gymTrial{
		program: os.Args[0], checkout: checkout, model: "m.gguf", dir: t.TempDir(), episodes: 3, patience: patience, limit: limit, log: t.Output(),
	}
	g, err := measureAgentGym(t.Context(), trial, names)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := g.print(&out); err != nil {
		t.Fatal(err)
	}
	return g, out.String()
}

func TestAgentGym(t *testing.T) {
	checkout := fakeCheckout(t)
	g, says := tryGym(t, "well", checkout, gymPatience)
	if len(g.Runs) != len(gymEnvs) || !g.kept() {
		t.Fatalf("%+v\n%s", g, says)
	}
	for _, r := range g.Runs {
		if tried := r.Env == "textcraft"; tried == (r.Missing != "") {
			t.Errorf("%s: got missing %q, want \"\" for textcraft, and text for the others", r.Env, r.Missing)
		}
	}
	r := g.Runs[0]
	if !(r.Installed > 0) || r.Packages != "fastapi 0.1" || r.Checks[check.Pass] != 1 || r.Dump.Outcomes[data.TurnLimit] != 3 || r.Dump.Turns != 6 || r.Dump.Calls["step"] != 3 {
		t.Errorf("%+v", r)
	}
	for _, want := range []string{"1 / 1 / 0 / 0", "3 turn_limit", "warnings: close", "maze: not tried: ", "git submodule update --init", "no process left: kept"} {
		if !strings.Contains(says, want) {
			t.Errorf("the report lacks %q:\n%s", want, says)
		}
	}
	// An environment that is named explicitly must exist.
	if g, says := tryGym(t, "well", checkout, gymPatience, "maze"); g.kept() || len(g.Runs) != 1 || !strings.Contains(says, "maze: NOT kept: ") {
		t.Errorf("%+v\n%s", g, says)
	}
}

func TestAgentGymFaults(t *testing.T) {
	checkout := fakeCheckout(t)
	if g, says := tryGym(t, "install", checkout, gymPatience, "textcraft"); g.kept() || !strings.Contains(says, "pip has no network") || !strings.Contains(says, "env install") {
		t.Errorf("%+v\n%s", g, says)
	}
	if g, says := tryGym(t, "registry", checkout, gymPatience, "textcraft"); g.kept() || !strings.Contains(says, "timeout after 100ms") {
		t.Errorf("%+v\n%s", g, says)
	}
	if err := os.MkdirAll(filepath.Join(checkout, "agentenv-textcraft", ".venv"), 0o755); err != nil {
		t.Fatal(err)
	}
	// The orphan process never ends, so the test does not wait for it.
	g, says := tryGym(t, "check orphan shape", checkout, 0, "textcraft")
	r := g.Runs[0]
	for _, line := range r.Left {
		pid, _, _ := strings.Cut(line, ":")
		if n, err := strconv.Atoi(pid); err != nil {
			t.Error(err)
		} else if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	if g.kept() || len(r.Left) != 1 || r.Installed != 0 {
		t.Errorf("%+v", r)
	}
	for _, want := range []string{
		"before", "NOT kept: env check: step (): expected this; got that", "killed with -9", "sleep 600", `textcraft_1: POST /step: the reply has no key "reward"`,
	} {
		if !strings.Contains(says, want) {
			t.Errorf("the report lacks %q:\n%s", want, says)
		}
	}
}

func TestJudgeDump(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*data.Episode)
		want  string
	}{
		{"all well", func(*data.Episode) {}, ""},
		{"failed", func(e *data.Episode) { e.Outcome, e.Err = data.EnvError, "status 500" }, "textcraft_0: env_error: status 500"},
		{"retried", func(e *data.Episode) { e.Attempts = 2 }, "2 attempts"},
		{"continued on another instance", func(e *data.Episode) { e.Replays = 1 }, "1 replays"},
		{"different observation", func(e *data.Episode) { e.Turns[1].Observation = "Got 2" }, `turn 2 has "Got 2", the server replied "Got 1 stick"`},
		{"different end", func(e *data.Episode) { e.Turns[1].Done = true }, "turn 2 is done: true"},
		{"a step too many", func(e *data.Episode) { e.Exchanges = append(e.Exchanges, e.Exchanges[0]) }, "2 steps were sent, and 1 turns made"},
		{"a step too few", func(e *data.Episode) { e.Exchanges = nil }, "turn 2 has an observation, and no step was sent"},
		{"cut off", func(e *data.Episode) { e.Turns = append(e.Turns, data.Turn{Stop: "context"}) }, ""},
		{"error object", func(e *data.Episode) { e.Exchanges[0].Reply = `{"error":"no"}` }, `the error "no"`},
	} {
		e := gymEpisode(0)
		c.spoil(e)
		_, faults := judgeDump("textcraft", []*data.Episode{e}, 1)
		if all := strings.Join(faults, "; "); all != c.want && (c.want == "" || !strings.Contains(all, c.want)) {
			t.Errorf("%s: got faults %q, want %q", c.name, all, c.want)
		}
	}
	var many []*data.Episode
	for i := range mostFaults + 4 {
		e := gymEpisode(i)
		e.Attempts = 3
		many = append(many, e)
	}
	if _, faults := judgeDump("textcraft", many, len(many)+1); len(faults) != mostFaults+1 || faults[mostFaults] != "and 5 more" || !strings.Contains(faults[0], "1 of 10 episodes are missing") {
		t.Errorf("got faults %q, want the missing episode first and \"and 5 more\" last", faults)
	}
}

// TestTinyBird checks the small database that replaces BIRD. It needs Python's sqlite3.
func TestTinyBird(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil || exec.Command(python, "-c", "import sqlite3").Run() != nil {
		t.Skip("python3 with sqlite3 is not installed")
	}
	dir := filepath.Join(t.TempDir(), "bird")
	if err := tinyBird(t.Context(), python, dir); err != nil {
		t.Fatal(err)
	}
	var asked []struct {
		DB  string `json:"db_id"`
		SQL string
	}
	text, err := os.ReadFile(filepath.Join(dir, "dev", "dev.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &asked); err != nil || len(asked) != gymTasks {
		t.Fatalf("got %d questions (error %v), want %d", len(asked), err, gymTasks)
	}
	for _, q := range asked {
		if q.DB != "shop" || q.SQL == "" {
			t.Errorf("%+v", q)
		}
	}
	for _, name := range []string{"dev_tables.json", "dev_databases/shop/shop.sqlite"} {
		if st, err := os.Stat(filepath.Join(dir, "dev", name)); err != nil || st.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := tinyBird(t.Context(), "/bin/false", dir); err == nil {
		t.Error("no error when Python fails")
	}
}
