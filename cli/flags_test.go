package cli

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/agent/eval"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
)

// parsed runs the app with one command, which has the flags and calls parse. It returns the result of parse, the exit
// code and the error message.
func parsed[T any](t *testing.T, line []string, flags []cli.Flag, parse func(s *State, c *cli.Context) (T, error)) (T, errext.ExitCode, string) {
	t.Helper()
	ts := newTestState(t, append([]string{"x"}, line...)...)
	var got T
	app := newApp(ts.State)
	app.Commands = []*cli.Command{leaf(ts.State, &cli.Command{Name: "x", Flags: flags}, 0, 9,
		func(_ context.Context, s *State, c *cli.Context) (err error) {
			got, err = parse(s, c)
			return err
		})}
	err := app.RunContext(t.Context(), arrange(app, ts.Args))
	text := ""
	if err != nil {
		text = err.Error()
	}
	return got, run.CodeOf(t.Context(), err), text
}

func TestParseRollout(t *testing.T) {
	got, code, text := parsed(t, strings.Fields("--model m --env maze --server http://a:1,http://b:2 --server http://c "+
		"--tasks 0-2,17 --skip-tasks 1 --samples 4 --max-turns 9 --max-new-tokens 32 --greedy --seed 18446744073709551615 --concurrency 3 --dump d.jsonl --top-k=-1"),
		rolloutFlags(), (*State).parseRollout)
	if code != errext.OK {
		t.Fatal(text)
	}
	want := schema.Defaults()
	want.Model.Path, want.Model.ComputeDtype = "m", "float32"
	e := run.Schema.DefaultEnv("maze")
	e.Servers, e.ValTasks, e.SkipTasks = []string{"http://a:1", "http://b:2", "http://c"}, []string{"0-2,17"}, []string{"1"}
	e.MaxTurns, e.Format, e.HistoryLength, e.Command = 9, "react", 2, []string{}
	want.Env = []configs.Env{e}
	r := &want.Rollout
	r.Val, r.MaxNewTokens, r.MaxContextTokens, r.MaxSequences = configs.RolloutVal{GroupSize: 4}, 32, 0, 3
	want.Agent.MaxObsTokens, want.Agent.MaxWorkers, want.Trainer.Seed = 0, 3, 18446744073709551615
	if diff := cmp.Diff(want, got.Config); diff != "" || got.Dump != "d.jsonl" || got.MaxLost != 0.1 || got.ServerLogs != "servers" {
		t.Errorf("%+v, -want +got:\n%s", got, diff)
	}
}

func TestParseRolloutReportsAllFaults(t *testing.T) {
	_, code, text := parsed(t, strings.Fields("--env mase --server localhost:1 --tasks 3-1 --skip-tasks a --wait-healthy 0 --samples 0 --temperature NaN --dtype float16 --device gpu --format x"),
		rolloutFlags(), (*State).parseRollout)
	if code != errext.Usage {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{
		"--model: missing", `--env: "mase" is not one of the environments`, `--server: "localhost:1" is not a server's address`, "--tasks: ", "--skip-tasks: ", "--wait-healthy: ", "--samples: 0",
		"--temperature: NaN", `--dtype: "float16"`, `--device: "gpu"`, `--format: "x"`, "--dump: missing",
	} {
		if !strings.Contains("\n"+text, "\n"+want) {
			t.Errorf("no line starts with %q in:\n%s", want, text)
		}
	}
}

func TestParseActionFormat(t *testing.T) {
	got, code, text := parsed(t, strings.Fields("--model m --env webshop --server http://a --tasks 1 --action-format code_as_action"), evalFlags(), (*State).parseEval)
	if code != errext.OK || got.Env[0].Format != "code_as_action" || got.Env[0].ActionFormat != "code_as_action" {
		t.Errorf("%s %+v", text, got)
	}
	for line, want := range map[string]string{
		"--action-format x": "--action-format: \"x\"",
		"--action-format function_calling --format react":                                    "--format: ",
		"--history-length 3":                                                                 "--history-length: only used with",
		"--use-summary --summary-base-url http://a":                                          "--use-summary: only used with",
		"--format history --use-summary":                                                     "--summary-base-url: missing",
		"--format history --summary-model w":                                                 "--summary-model: only used with --use-summary",
		"--format history --use-summary --summary-base-url http://a --deterministic":         "--use-summary: the summaries of an endpoint",
		"--format history --use-summary --summary-base-url http://u:p@a":                     "--summary-base-url: the endpoint's address contains a user",
		"--format history --use-summary --summary-base-url http://a --summary-timeout 0":     "--summary-timeout: 0 is not allowed",
		"--format history --use-summary --summary-base-url http://a --summary-concurrency 0": "--summary-concurrency: 0 is not allowed",
		"--format history --use-summary --summary-base-url http://a --summary-max-tokens 0":  "--summary-max-tokens: 0 is not allowed",
		"--format history --use-summary --summary-base-url http://a --summary-temperature 3": "--summary-temperature: 3 is not allowed",
		"--format history --use-summary --summary-base-url http://a --summary-key-env sk-1":  "--summary-key-env: this looks like a key",
		"--format history --history-length=-1":                                               "--history-length: -1",
		"--format history --memory-file m":                                                   "--memory-file: only used with",
		"--format staged --memory-file m --deterministic":                                    "--memory-file: ",
	} {
		args := "--model m --env webshop --server http://a --tasks 1 " + line
		if _, code, text := parsed(t, strings.Fields(args), evalFlags(), (*State).parseEval); code != errext.Usage || !strings.Contains(text, want) {
			t.Errorf("%s: %s", line, text)
		}
	}
}

func TestParseEval(t *testing.T) {
	got, code, text := parsed(t, strings.Fields("--json --model m --env wordle --tasks rows.parquet --temperature 0.5"), evalFlags(), (*State).parseEval)
	if code != errext.OK {
		t.Fatal(text)
	}
	if got.Env[0].ValTasks[0] != "rows.parquet" || got.Rollout.Val.Temperature != 0.5 {
		t.Errorf("got %+v", got)
	}
	if _, code, text = parsed(t, strings.Fields("--model m --env maze --tasks 1 --greedy --temperature 1"), evalFlags(), (*State).parseEval); code != errext.Usage {
		t.Errorf("--greedy together with --temperature is not a usage error: %s", text)
	}
}

func TestPrintEval(t *testing.T) {
	r := eval.Result{Env: "maze", Tasks: 8, Samples: 16, SuccessRate: 0.5, MeanScore: -0.25, MeanTurns: 7.25,
		Outcomes: eval.Tally{"turn_limit": 64, "success": 64}}
	tests := []struct {
		json bool
		want string
	}{
		{true, `{"env":"maze","tasks":8,"samples":16,"success_rate":0.5,"mean_score":-0.25,"mean_turns":7.25,"outcomes":{"success":64,"turn_limit":64},"lost":0,"metrics":null,"retries":0,"replays":0,"servers":{"requests":0,"instances_created":0,"quarantines":0,"faults":null},"model":"","weights":"","seed":0,"contract":{"hash":"","parts":null},"per_task":null}` + "\n"},
		{false, "maze: 8 tasks x 16 samples: success 0.500, mean score -0.250, mean turns 7.2;\n    success 64, turn_limit 64\n"},
	}
	for _, tt := range tests {
		ts := newTestState(t)
		if err := ts.printResult(r, r.String(), tt.json); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, ts.out.String()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// TestModelUsage checks that wrong command lines of the model commands are usage errors.
func TestModelUsage(t *testing.T) {
	for line, want := range map[string]string{
		"info":                              "model info needs a MODEL",
		"info --model a b":                  "--model a and b are given",
		"convert":                           "model convert needs SRC DST",
		"convert a":                         "model convert needs SRC DST",
		"convert a b c":                     "at most 2 argument(s)",
		"convert a b --dtype int8":          `--dtype: "int8"`,
		"logprobs":                          "--model: missing",
		"logprobs --model m --device gpu":   "--device: ",
		"logprobs --model m --dtype double": `--dtype: "double"`,
		"logprobs m":                        "at most 0 argument(s)",
	} {
		code, _, stderr := inProcess(t, t.TempDir(), append([]string{"model"}, strings.Fields(line)...)...)
		if code != int(errext.Usage) || !strings.Contains(stderr, want) {
			t.Errorf("model %s: exit code %d, %q; want %q", line, code, stderr, want)
		}
	}
}

func TestParseTrain(t *testing.T) {
	cfg, code, text := parsed(t, []string{"--set", "env.maze.tasks=1,3", "--device", "cuda", "--set=actor.optim.lr=1e-4"}, trainFlags(), (*State).parseTrain)
	if code != errext.OK {
		t.Fatal(text)
	}
	if cfg.Trainer.Experiment != "quickstart" || cfg.Model.Device != "cuda" || cfg.Actor.Optim.LR != 1e-4 || cfg.Env[0].Tasks[0] != "1,3" {
		t.Errorf("got %+v", cfg)
	}
	tests := []struct {
		line string
		code errext.ExitCode
		want string
	}{
		{"nowhere.toml", errext.Input, "give the path of a configuration"},
		{"--preset quikstart", errext.Usage, "did you mean quickstart?"},
		{"a.toml --preset grpo", errext.Usage, "--preset grpo"},
		{"--device gpu", errext.Usage, "--device: "},
		{"--set actor.optim.lr=fast", errext.Input, "--set: actor.optim.lr: "},
		{"--sett a=b", errext.Usage, "see openmanus x --help"},
		{"--set", errext.Usage, "flag needs an argument: --set"},
		{"--dashboard=1:2:3", errext.Usage, "for --dashboard: "},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			_, code, text := parsed(t, strings.Fields(tt.line), trainFlags(), (*State).parseTrain)
			if code != tt.code || !strings.Contains(text, tt.want) {
				t.Errorf("exit %d, %q; want %d, %q", code, text, tt.code, tt.want)
			}
		})
	}
}

func TestSFTNeedsEpochs(t *testing.T) {
	if code, _, stderr := inProcess(t, t.TempDir(), "sft", "--preset", "grpo"); code != int(errext.Input) || !strings.Contains(stderr, "sft.epochs") {
		t.Errorf("exit %d, %q", code, stderr)
	}
}

func TestArrange(t *testing.T) {
	ts := newTestState(t)
	app := newApp(ts.State)
	tests := []struct{ in, want string }{
		{"", ""},
		{"--help", "--help"},
		{"config", "config"},
		{"config check a.toml --set a=b -q", "config check --set a=b -q -- a.toml"},
		{"config check a.toml --set=a=b b.toml", "config check --set=a=b -- a.toml b.toml"},
		{"config check - -q", "config check -q -- -"},
		{"config check -- --set", "config check -- --set"},
		{"config check x --set", "config check --set"},
		{"config check x --help", "config check --help --"},
		{"config check -h x", "config check -h --"},
		{"config check x -- -h", "config check -- x -h"},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			got := arrange(app, append([]string{"openmanus"}, strings.Fields(tt.in)...))
			if diff := cmp.Diff(tt.want, strings.Join(got[1:], " ")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
