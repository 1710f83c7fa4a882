package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/agent/openai/openaitest"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
)

const playedRun = `[model]
path = "folder"
compute_dtype = "float32"
[agent]
max_obs_tokens = 70
max_parse_failures = 3
max_workers = 9
[rollout]
max_new_tokens = 33
max_context_tokens = 900
deterministic = true
[rollout.val]
temperature = 0
group_size = 2
[data]
max_prompt_tokens = 500
[[env]]
name = "maze"
tasks = "0-9"
val_tasks = "16-18"
format = "react"
max_turns = 4
instruction = "Walk."
`

const endpointRun = `[agent]
max_obs_tokens = 0
[rollout]
engine = "openai"
[rollout.api]
base_url = "http://127.0.0.1:1/v1"
model = "small"
key_env = "MY_KEY"
retries = 0
[[env]]
name = "maze"
tasks = "0-9"
val_tasks = "16-18"
format = "react"
[[env]]
name = "wordle"
tasks = "0-9"
format = "react"
`

func TestFillFromConfig(t *testing.T) {
	local := taskOptions{
		Model: "folder", Device: "auto", Dtype: "float32", Env: "maze", Tasks: "16-18", Samples: 2, MaxTurns: 4, MaxNewTokens: 33,
		MaxContextTokens: 900, MaxObsTokens: 70, MaxParseFailures: 3, Temperature: 1, Greedy: true, TopP: 1, TopK: -1, Seed: 1,
		Concurrency: 9, Deterministic: true, Format: "react", Parser: "g2", ActionFormat: "react", HistoryLength: 2, TimeoutS: 300, WaitHealthyS: 120, Instruction: "Walk.",
	}
	endpoint := taskOptions{
		Endpoint: &endpointOptions{BaseURL: "http://127.0.0.1:1/v1", Model: "small", KeyEnv: "MY_KEY", TimeoutS: 120},
		Device:   "auto", Dtype: "float32", Env: "maze", Tasks: "16-18", Samples: 1, MaxTurns: 10, MaxNewTokens: 512,
		MaxContextTokens: 8192, Temperature: 0.4, TopP: 1, TopK: -1, Seed: 1,
		Concurrency: 64, Format: "react", Parser: "g2", ActionFormat: "react", HistoryLength: 2, TimeoutS: 300, WaitHealthyS: 120,
	}
	tests := []struct {
		name, text, line string
		base             taskOptions
		change           func(o *taskOptions)
	}{
		{"as it is", playedRun, "", local, func(*taskOptions) {}},
		{"the other split", playedRun, "--split train", local, func(o *taskOptions) { o.Tasks = "0-9" }},
		{"a key", playedRun, "--set env.maze.max_turns=5", local, func(o *taskOptions) { o.MaxTurns = 5 }},
		{"a number format by the device", playedRun, "--set model.compute_dtype=auto --device cpu", local, func(o *taskOptions) { o.Device = "cpu" }},
		{"flags win", playedRun, "--tasks 3 --temperature 0.5 --instruction-file f.txt --samples 7 --seed 4", local, func(o *taskOptions) {
			o.Tasks, o.Temperature, o.Greedy, o.Instruction, o.InstructionFile, o.Samples, o.Seed = "3", 0.5, false, "", "f.txt", 7, 4
		}},
		{"an endpoint plays", playedRun, "--base-url http://a/v1 --api-model m", local, func(o *taskOptions) {
			o.Endpoint = &endpointOptions{BaseURL: "http://a/v1", Model: "m", KeyEnv: "OPENAI_API_KEY", TimeoutS: 120, Retries: 5}
			o.Model, o.Deterministic, o.MaxObsTokens = "", false, 0
		}},
		{"configured endpoint", endpointRun, "--env maze", endpoint, func(*taskOptions) {}},
		{"a model plays instead", endpointRun, "--env maze --model d", endpoint, func(o *taskOptions) { o.Endpoint, o.Model = nil, "d" }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			line := append([]string{"-"}, strings.Fields(tt.line)...)
			got, code, text := parsed(t, line, evalFlags(), func(s *State, c *cli.Context) (evalOptions, error) {
				s.Stdin = strings.NewReader(tt.text)
				if _, err := s.fillFromConfig(c); err != nil {
					return evalOptions{}, err
				}
				return parseEval(c)
			})
			if code != errext.OK {
				t.Fatal(text)
			}
			want := tt.base
			tt.change(&want)
			if diff := cmp.Diff(want, got.taskOptions); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// What a run's configuration says of its servers holds in eval and rollout too,
// also where no flag says it.
func TestServersAsConfigured(t *testing.T) {
	const more = `[[env]]
name = "textcraft"
format = "react"
tasks = "0-9"
max_turns = 4
launch = true
command = ["sh", "-c", "exec my server {port}"]
environment = { A = "1,2" }
base_port = 4000
hang_timeout_s = 7
timeout_s = 20
create_timeout_s = 11
reset_timeout_s = 12
step_timeout_s = 13
observe_timeout_s = 14
close_timeout_s = 2
retries = 1
max_instances = 6
max_requests = 2
quarantine_after = 9
wait_healthy_s = 8
`
	text := strings.Replace(playedRun, "[rollout]", "episode_retries = 7\nepisode_replays = 4\n[rollout]", 1)
	text, _, _ = strings.Cut(text, "[[env]]")
	text += "[trainer]\ntest_every = 0\nval_before_train = false\n" + more
	read := func(line string) taskOptions {
		t.Helper()
		o, code, words := parsed(t, strings.Fields("- --split train "+line), evalFlags(), func(s *State, c *cli.Context) (evalOptions, error) {
			s.Stdin = strings.NewReader(text)
			own, err := s.fillFromConfig(c)
			if err != nil {
				return evalOptions{}, err
			}
			o, err := parseEval(c)
			o.Unflagged = own
			return o, err
		})
		if code != errext.OK {
			t.Fatal(words)
		}
		return o.taskOptions
	}
	cfg, err := configs.Load("run.toml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := worldOf(cfg.Env[0])
	want.Launch = launchOf(cfg.Env[0], "servers")
	o := read("")
	if diff := cmp.Diff(want, o.world()); diff != "" {
		t.Errorf("-run +eval:\n%s", diff)
	}
	if u := o.Unflagged; u.Attempts != 8 || u.Replays != 4 {
		t.Errorf("%d attempts, %d replays", u.Attempts, u.Replays)
	}
	o = read("--timeout 3 --command other")
	if w := o.world(); w.Timeouts.Step != 0 || w.Timeout != 3*time.Second || len(w.Launch.Command) != 1 || w.Retries != 1 {
		t.Errorf("flags do not win: %+v, command %q", w, w.Launch.Command)
	}
	if w := read("--server http://a:1").world(); w.Launch != nil || w.MaxRequests != 2 {
		t.Errorf("a server instead: %+v", w)
	}
}

func TestEvalTakesAConfiguration(t *testing.T) {
	s := openaitest.Serve(t, walker)
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", strings.ReplaceAll(endpointRun, "http://127.0.0.1:1/v1", s.URL))
	code, out, stderr := inProcess(t, dir, "eval", "run.toml", "--env", "maze", "--json", "--max-turns", "2")
	if code != 0 || !strings.HasPrefix(out, `{"env":"maze","tasks":3,"samples":1,`) {
		t.Errorf("exit code %d\n%s%s", code, out, stderr)
	}
	for line, want := range map[string]struct {
		code  errext.ExitCode
		words string
	}{
		"eval run.toml":                           {errext.Usage, "--env: maze, wordle"},
		"eval run.toml --env gaia":                {errext.Usage, `no environment "gaia"`},
		"eval run.toml --env wordle":              {errext.Input, `no tasks of the split "val"`},
		"eval run.toml --env maze --split middle": {errext.Usage, `--split: "middle"`},
		"eval --split train":                      {errext.Usage, "--split: it speaks of a configuration"},
		"rollout run.toml --env maze":             {errext.Usage, "--dump: missing"},
		"eval missing.toml":                       {errext.Input, "missing.toml"},
		"eval run.toml other.toml":                {errext.Usage, "at most 1 argument"},
	} {
		if code, _, stderr := inProcess(t, dir, strings.Fields(line)...); code != int(want.code) || !strings.Contains(stderr, want.words) {
			t.Errorf("%s: exit code %d, want %d with %q\n%s", line, code, want.code, want.words, stderr)
		}
	}
}
