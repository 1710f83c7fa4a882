package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/internal/errext"
)

// runStartScript runs a start script in dir with the given program and environment variables.
func runStartScript(t *testing.T, dir, program, script string, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../configs", script))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "OMP_NUM_THREADS=1", "OPENMANUS=" + program}, environ...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// TestStartScripts checks the train commands that the start scripts build from upstream's flags and variables. It
// validates each with config show, which has the same flags as train.
func TestStartScripts(t *testing.T) {
	dir := t.TempDir()
	for _, folder := range []string{"rows", "both", "no rows"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"rows/train.parquet", "both/train.parquet", "both/val.parquet", "both/test.parquet", "data/wordle/train.parquet"} {
		writeFile(t, dir, file, "")
	}
	const names = `--set trainer.experiment=`
	for _, tt := range []struct {
		name, script, flags, environ string
		want                         string // the arguments of openmanus train; "" if the script fails
		code                         int
		stderr                       string // part of stderr
	}{
		{"built in", "train_ppo.sh", "--env_name maze", "", `--preset ppo --env maze ` + names + `"OpenManus-rl-ppo-maze"`, 0, ""},
		{"grpo", "train_grpo.sh", "--env_name wordle", "BASE_MODEL=models/Qwen2.5-3B/",
			`--preset grpo --env wordle --set model.path="models/Qwen2.5-3B" ` + names + `"OpenManus-rl-grpo-Qwen2.5-3B-wordle"`, 0, ""},
		{"servers", "train_ppo.sh", "--env_name=textcraft --num_servers 2 --base_port 40000 --checkout gym --exp_name_suffix one", "AGENTENV_PYTHON=py",
			`--preset ppo --env textcraft ` + names + `"OpenManus-rl-ppo-textcraft" --set trainer.experiment_suffix="one"` +
				` --set env.textcraft.servers=[] --set env.textcraft.launch=true --set env.textcraft.checkout="gym" --set env.textcraft.num_servers=2` +
				` --set env.textcraft.base_port=40000 --set env.textcraft.python="py"`, 0, ""},
		{"running servers", "train_ppo.sh", "--attach --num_servers 2", "", `--preset ppo --env webshop ` + names + `"OpenManus-rl-ppo-webshop"` +
			` --set env.webshop.servers=["http://127.0.0.1:36005", "http://127.0.0.1:36006"]`, 0, ""},
		{"default port of GRPO", "train_grpo.sh", "--attach", "", `--preset grpo --env webshop ` + names + `"OpenManus-rl-grpo-webshop"` +
			` --set env.webshop.servers=["http://127.0.0.1:36001"]`, 0, ""},
		{"another machine", "train_grpo.sh", "--env_name weather", "AGENTGYM_HOST=gym", `--preset grpo --env weather ` + names + `"OpenManus-rl-grpo-weather"` +
			` --set env.weather.servers=["http://gym:8000"]`, 0, ""},
		{"data", "train_ppo.sh", "--env_name maze --data_dir both", "", `--preset ppo --env maze ` + names + `"OpenManus-rl-ppo-maze"` +
			` --set env.maze.tasks=["both/train.parquet"] --set env.maze.val_tasks=["both/val.parquet"]`, 0, ""},
		{"data without validation", "train_ppo.sh", "--env_name maze --data_dir rows", "", `--preset ppo --env maze ` + names + `"OpenManus-rl-ppo-maze"` +
			` --set env.maze.tasks=["rows/train.parquet"]`, 0, "rows has neither val.parquet nor test.parquet"},
		{"sqlgym", "train_ppo.sh", "--env_name sqlgym --checkout gym", "AGENTGYM_SQL_BIRD_PATH=/b", `--preset ppo --env sqlgym ` + names + `"OpenManus-rl-ppo-sqlgym"` +
			` --set env.sqlgym.servers=[] --set env.sqlgym.launch=true --set env.sqlgym.checkout="gym" --set env.sqlgym.num_servers=1 --set env.sqlgym.base_port=36002` +
			` --set env.sqlgym.environment={AGENTENV_SQLGYM_BIRD_PATH = "/b"}`, 0, ""},
		{"names and more flags", "train_ppo.sh", "--env_name maze -- --set actor.optim.lr=1e-5", "WAND_PROJECT=p WANDB_NAME=n WANDB_API_KEY=k CUDA_VISIBLE_DEVICES=1,2",
			`--preset ppo --env maze --set trainer.experiment="n" --set actor.optim.lr=1e-5`, 0, "WANDB_API_KEY is ignored"},
		{"flags of launched servers", "train_ppo.sh", "--env_name wordle --num_servers 2 --base_port 40000", "WANDB_RUN_GROUP=g WANDB_MODE=disabled",
			`--preset ppo --env wordle ` + names + `"OpenManus-rl-ppo-wordle"`, 0, "ignored: --num_servers and --base_port"},
		{"tags", "train_ppo.sh", "--env_name maze", "WANDB_TAGS=a,b", `--preset ppo --env maze ` + names + `"OpenManus-rl-ppo-maze"`, 0, "WANDB_TAGS is ignored"},
		{"no rows of the preset", "train_ppo.sh", "--env_name babyai --attach", "", `--preset ppo --env babyai ` + names + `"OpenManus-rl-ppo-babyai"` +
			` --set env.babyai.servers=["http://127.0.0.1:36001"]`, 0, "data/babyai/train.parquet"},
		{"rows that the preset does not read", "train_ppo.sh", "--env_name wordle", "", `--preset ppo --env wordle ` + names + `"OpenManus-rl-ppo-wordle"`, 0,
			"set --data_dir data/wordle"},
		{"built-in textcraft", "train_ppo.sh", "--env_name textcraft", "", `--preset ppo --env textcraft ` + names + `"OpenManus-rl-ppo-textcraft"`, 0, ""},
		{"rows of textcraft", "train_ppo.sh", "--env_name textcraft --data_dir both", "", "", 2, "textcraft needs --checkout DIR"},
		{"differences from the preset", "train_ppo.sh", "--env_name maze", "", `--preset ppo --env maze ` + names + `"OpenManus-rl-ppo-maze"`, 0,
			"--original sets them: actor.optim.warmup_ratio=0.95"},
		{"the original's PPO", "train_ppo.sh", "--env_name maze --original", "", `--preset ppo --env maze --set actor.optim.warmup_ratio=0.95` +
			` --set env.maze.max_turns=2 --set actor.entropy_coef=0.001 --set actor.clip_ratio_high=0.2 --set data.train_batch_size=3` +
			` --set actor.mini_batch_size=0 --set critic.mini_batch_size=0 --set trainer.critic_warmup=0 --set rollout.max_new_tokens=1000` +
			` --set rollout.max_context_tokens=5096 --set trainer.save_every=1 --set trainer.test_every=50 ` + names + `"OpenManus-rl-ppo-maze"`, 0, ""},
		{"the original's GRPO", "train_grpo.sh", "--env_name maze --original", "", `--preset grpo --env maze --set actor.optim.warmup_ratio=0.95` +
			` --set env.maze.max_turns=2 --set actor.entropy_coef=0.001 --set actor.clip_ratio_high=0.2 --set data.train_batch_size=512` +
			` --set rollout.group_size=5 --set actor.mini_batch_size=32 --set rollout.max_new_tokens=500 --set rollout.max_context_tokens=4596` +
			` --set agent.max_obs_tokens=500 --set trainer.save_every=100 --set trainer.test_every=50 ` + names + `"OpenManus-rl-grpo-maze"`, 0, ""},
		{"no such environment", "train_ppo.sh", "--env_name mase", "", "", 2, "--env_name mase"},
		{"no such flag", "train_ppo.sh", "--port 1", "", "", 2, "unknown flag --port; --help lists the flags"},
		{"no value", "train_ppo.sh", "--env_name", "", "", 2, "--env_name needs a value"},
		{"no number", "train_ppo.sh", "--num_servers 0", "", "", 2, "--num_servers 0"},
		{"no servers", "train_ppo.sh", "", "", "", 2, "webshop needs --checkout DIR"},
		{"no rows", "train_ppo.sh", "--env_name maze --data_dir gone", "", "", 3, "openmanus data convert ROWS.jsonl gone/train.parquet"},
		{"no bird", "train_ppo.sh", "--env_name sqlgym --checkout gym", "", "", 2, "sqlgym needs AGENTGYM_SQL_BIRD_PATH"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"--dry-run"}, strings.Fields(tt.flags)...)
			code, stdout, stderr := runStartScript(t, dir, "openmanus", tt.script, strings.Fields(tt.environ), args...)
			if code != tt.code || !strings.Contains(stderr, tt.stderr) {
				t.Fatalf("exit code %d, want %d; want %q in stderr:\n%s", code, tt.code, tt.stderr, stderr)
			}
			if tt.want == "" {
				return
			}
			var words []string
			if lines := shellLines(stdout); len(lines) == 1 {
				words = lines[0]
			}
			if got := strings.Join(words, " "); got != "openmanus train "+tt.want {
				t.Errorf("got  %s\nwant openmanus train %s", got, tt.want)
			}
			if code, _, stderr := inProcess(t, dir, append([]string{"config", "show"}, words[2:]...)...); code != 0 {
				t.Errorf("config show: exit code %d\n%s", code, stderr)
			}
		})
	}
	if code, stdout, _ := runStartScript(t, dir, "openmanus", "train_grpo.sh", nil, "--help"); code != 0 || !strings.Contains(stdout, "usage: train_grpo.sh") {
		t.Errorf("--help: exit code %d\n%s", code, stdout)
	}
}

// TestStartScriptTrains runs a script to the end and checks that it returns the exit code of the program.
func TestStartScriptTrains(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains a model")
	}
	program, err := exec.LookPath("openmanus")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rowsFile(t, dir, "rows.jsonl")
	link(t, tinyModel(t), dir, "tiny")
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := inProcess(t, dir, "data", "convert", "rows.jsonl", "data/train.parquet"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	flags := strings.Fields("--env_name maze --data_dir data --exp_name_suffix once -- --device cpu --quiet --set model.compute_dtype=float32" +
		" --set data.train_batch_size=2 --set data.max_prompt_tokens=3000 --set rollout.max_context_tokens=4000 --set rollout.max_new_tokens=8" +
		" --set rollout.group_size=2 --set env.maze.max_turns=2 --set env.maze.val_tasks=16 --set actor.mini_batch_size=0 --set trainer.total_steps=1")
	code, stdout, stderr := runStartScript(t, dir, program, "train_grpo.sh", []string{"BASE_MODEL=tiny"}, flags...)
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	mustContain(t, "stdout", stdout, "runs/OpenManus-rl-grpo-tiny-maze_once: 1 step\n")
	one(t, dir, "runs/OpenManus-rl-grpo-tiny-maze_once/checkpoints/step_000001/actor/model.safetensors")

	code, _, stderr = runStartScript(t, dir, program, "train_grpo.sh", []string{"BASE_MODEL=gone"}, flags...)
	if code != int(errext.Model) {
		t.Errorf("exit code %d without a model, want %d:\n%s", code, errext.Model, stderr)
	}
}
