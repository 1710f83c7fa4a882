package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/agent/openai/openaitest"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/env"
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

func TestParsePlay(t *testing.T) {
	load := func(text string) configs.Config {
		t.Helper()
		cfg, err := schema.Load("run.toml", []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Env = cfg.Env[:1]
		cfg.Trainer.Seed, cfg.Derived = 1, nil
		return cfg
	}
	local, endpoint := load(playedRun), load(endpointRun)
	tests := []struct {
		name, text, line string
		base             configs.Config
		change           func(o *configs.Config)
	}{
		{"no flags", playedRun, "", local, func(*configs.Config) {}},
		{"the other split", playedRun, "--split train", local, func(o *configs.Config) { o.Env[0].ValTasks = []string{"0-9"} }},
		{"a key", playedRun, "--set env.maze.max_turns=5", local, func(o *configs.Config) { o.Env[0].MaxTurns = 5 }},
		{"a number format chosen by the device", playedRun, "--set model.compute_dtype=auto --device cpu", local, func(o *configs.Config) { o.Model.Device, o.Model.ComputeDtype = "cpu", "auto" }},
		{"sampling settings of training do not apply", playedRun, "--set rollout.top_p=0.5 --set rollout.top_k=3 --set trainer.seed=9", local, func(*configs.Config) {}},
		{"flags override keys", playedRun, "--tasks 3 --temperature 0.5 --instruction-file f.txt --samples 7 --seed 4 --top-p 0.9 --concurrency 5", local, func(o *configs.Config) {
			o.Env[0].ValTasks, o.Env[0].Instruction, o.Env[0].InstructionFile = []string{"3"}, "", "f.txt"
			o.Rollout.Val, o.Rollout.TopP, o.Trainer.Seed = configs.RolloutVal{Temperature: 0.5, GroupSize: 7}, 0.9, 4
			o.Agent.MaxWorkers, o.Rollout.MaxSequences = 5, 5
		}},
		{"no limits", playedRun, "--max-turns 0 --max-context-tokens 0", local, func(o *configs.Config) {
			spec, _ := env.Lookup("maze")
			o.Env[0].MaxTurns, o.Rollout.MaxContextTokens = spec.MaxTurns, 0
		}},
		{"a model of another folder", playedRun, "--model d", local, func(o *configs.Config) { o.Model.Path = "d" }},
		{"an endpoint plays", playedRun, "--base-url http://a/v1 --api-model m", local, func(o *configs.Config) {
			o.Rollout.Engine, o.Rollout.API.BaseURL, o.Rollout.API.Model = "openai", "http://a/v1", "m"
			o.Rollout.Deterministic, o.Agent.MaxObsTokens = false, 0
		}},
		{"configured endpoint", endpointRun, "--env maze", endpoint, func(*configs.Config) {}},
		{"a model plays instead", endpointRun, "--env maze --model d", endpoint, func(o *configs.Config) {
			o.Rollout.Engine, o.Model.Path, o.Model.ComputeDtype = "local", "d", "float32"
		}},
		{"another format", playedRun, "--format history --history-length 4", local, func(o *configs.Config) {
			o.Env[0].Format, o.Env[0].HistoryLength = "history", 4
		}},
		{"a format without memory", strings.Replace(playedRun, `format = "react"`, "format = \"staged\"\nmemory_file = \"m\"", 1),
			"--format react --set rollout.deterministic=false", local, func(o *configs.Config) { o.Rollout.Deterministic = false }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, code, text := parsed(t, append([]string{"-"}, strings.Fields(tt.line)...), evalFlags(), func(s *State, c *cli.Context) (evalOptions, error) {
				s.Stdin = strings.NewReader(tt.text)
				return s.parseEval(c)
			})
			if code != errext.OK {
				t.Fatal(text)
			}
			want := tt.base.Clone()
			tt.change(&want)
			got.Derived = nil
			if got.Env[0].HistoryLength == 2 && !schema.WritesPrompts(got.Env[0].Format) {
				got.Env[0].HistoryLength = want.Env[0].HistoryLength // the format does not use the history length
			}
			if diff := cmp.Diff(want, got.Config); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestServersAsConfigured checks that eval and rollout use the server settings of a configuration, also settings without
// a flag.
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
	read := func(line string) configs.Env {
		t.Helper()
		o, code, words := parsed(t, strings.Fields("- --split train "+line), evalFlags(), func(s *State, c *cli.Context) (evalOptions, error) {
			s.Stdin = strings.NewReader(text)
			return s.parseEval(c)
		})
		if code != errext.OK {
			t.Fatal(words)
		}
		if o.Agent.EpisodeRetries != 7 || o.Agent.EpisodeReplays != 4 {
			t.Errorf("%d retries, %d replays", o.Agent.EpisodeRetries, o.Agent.EpisodeReplays)
		}
		return o.Env[0]
	}
	cfg, err := schema.Load("run.toml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := cfg.Env[0]
	want.ValTasks, want.HistoryLength = []string{strings.Join(want.Tasks, ",")}, cfg.Agent.HistoryLength
	if diff := cmp.Diff(want, read("")); diff != "" {
		t.Errorf("-run +eval:\n%s", diff)
	}
	if w := read("--timeout 3 --command other"); w.StepTimeoutS != 0 || w.TimeoutS != 3 || len(w.Command) != 1 || w.Retries != 1 {
		t.Errorf("flags do not override the configuration: %+v", w)
	}
	if w := read("--server http://a:1"); w.Launch || w.MaxRequests != 2 {
		t.Errorf("with --server: %+v", w)
	}
}

func TestEvalConfiguration(t *testing.T) {
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
		"eval --split train":                      {errext.Usage, "--split: "},
		"rollout run.toml --env maze":             {errext.Usage, "--dump: missing"},
		"eval missing.toml":                       {errext.Input, "missing.toml"},
		"eval run.toml other.toml":                {errext.Usage, "at most 1 argument"},
	} {
		if code, _, stderr := inProcess(t, dir, strings.Fields(line)...); code != int(want.code) || !strings.Contains(stderr, want.words) {
			t.Errorf("%s: exit code %d, want %d with %q\n%s", line, code, want.code, want.words, stderr)
		}
	}
}
