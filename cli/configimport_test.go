package cli

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/env/builtin"
)

// rowsFile writes two rows of the maze.
func rowsFile(t *testing.T, dir, name string) {
	t.Helper()
	text := ""
	for _, id := range []string{"lmrlgym_maze_17", "lmrlgym_maze_18"} {
		text += `{"item_id":"` + id + `","conversations":[{"from":"human","value":"Walk."},{"from":"gpt","value":"OK"}]}` + "\n"
	}
	writeFile(t, dir, name, text)
}

// TestImportTrains checks that the configuration imported from an upstream start script trains: PPO with a critic, with
// the script's addresses, rows, lengths and names. Settings appended to the script make the run small.
func TestImportTrains(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains a model")
	}
	server, err := builtin.Serve(t.Context(), "maze", "127.0.0.1:0", builtin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script, err := os.ReadFile("../configs/hydra/testdata/train_ppo.sh")
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, "train_ppo.sh", string(script))
	rowsFile(t, dir, "rows.jsonl")
	link(t, tinyModel(t), dir, "tiny")
	code, _, stderr := inProcess(t, dir, "config", "import", "train_ppo.sh", "--out", "run.toml",
		"BASE_MODEL=tiny", "ENV_NAME=maze", "PORT_LIST="+at.Port(),
		"data.train_files=rows.jsonl", "data.val_files=rows.jsonl", "data.train_batch_size=2", "data.max_prompt_length=3000", "data.max_response_length=8",
		"actor_rollout_ref.model.torch_dtype=float32", "trainer.total_training_steps=2", "trainer.save_freq=-1", "trainer.test_freq=-1",
		"trainer.val_before_train=false")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	mustContain(t, "the report", stderr, "mapped", "ignored", "never reads it")
	if strings.Contains(stderr, "config check refuses") {
		t.Fatalf("config check reports errors:\n%s", stderr)
	}
	cfg, err := schema.Load("run.toml", read(t, dir, "run.toml"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if e := cfg.Env[0]; e.Servers[0] != server.URL || e.Tasks[0] != "rows.jsonl" || e.MaxTurns != 2 || cfg.Critic.Path != "tiny" {
		t.Errorf("%+v, critic %+v", e, cfg.Critic)
	}
	code, stdout, stderr := inProcess(t, dir, "train", "run.toml", "--device", "cpu")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	mustContain(t, "stderr", stderr, "actor.offload_optimizer", "on the CPU")
	run := filepath.Join("verl_checkpoints", "OpenManus-rl-ppo-tiny-maze")
	mustContain(t, "stdout", stdout, run+": 2 steps")
	lines := strings.Split(strings.TrimSpace(string(read(t, dir, filepath.Join(run, "metrics.jsonl")))), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines of metrics", len(lines))
	}
	mustContain(t, "metrics", lines[1], `"step":2`, `"critic/grad_norm"`)
}
