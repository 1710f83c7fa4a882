package cli

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/openmanus/openmanus/internal/errext"
)

// TestSFTWithoutServers checks that supervised training uses servers only if it validates by playing or solves expert
// tasks.
func TestSFTWithoutServers(t *testing.T) {
	down := httptest.NewServer(http.NotFoundHandler())
	address := down.URL
	down.Close()
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	writeFile(t, dir, "rows.jsonl", mazeRow)
	writeFile(t, dir, "held-out.jsonl", mazeRow)
	args := []string{
		"sft", "run.toml", "--set", "sft.files=rows.jsonl", "--set", "sft.epochs=2", "--set", "env.maze.expert_tasks=[]", "--set", "model.fresh.walks=0", "--set", "model.fresh.vocabulary=bytes",
		"--set", "env.maze.servers=" + address, "--set", "env.maze.val_tasks=[]", "--set", "sft.val_files=held-out.jsonl",
	}
	code, stdout, stderr := inProcess(t, dir, args...)
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	mustContain(t, "stdout", stdout, "tiny-sft: 2 steps", "--split train")
	for _, set := range []string{"env.maze.val_tasks=16", "env.maze.expert_tasks=17", "model.fresh.walks=2"} {
		code, _, stderr = inProcess(t, dir, append(args, "--set", set, "--set", "trainer.experiment=played")...)
		if code != int(errext.Env) {
			t.Errorf("%s: exit code %d:\n%s", set, code, stderr)
		}
	}
	code, _, stderr = inProcess(t, dir, "train", "run.toml", "--set", "env.maze.servers="+address, "--set", "trainer.experiment=reinforced")
	if code != int(errext.Env) {
		t.Errorf("train: exit code %d:\n%s", code, stderr)
	}
}

// TestSFTPresetWithoutServers checks that the preset needs only a model and the rows.
func TestSFTPresetWithoutServers(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "rows.jsonl", craftRow)
	code, stdout, stderr := inProcess(t, dir, "sft", "--preset", "sft", "--set", "model.path="+copyTinyModel(t), "--set", "env.textcraft.tasks=rows.jsonl",
		"--set", "model.device=cpu", "--set", "model.compute_dtype=float32", "--set", "sft.epochs=1", "--set", "sft.max_length=256", "--set", "rollout.max_context_tokens=256",
		"--set", "rollout.max_new_tokens=8", "--set", "data.max_prompt_tokens=64")
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	mustContain(t, "stdout", stdout, "textcraft-sft: 1 step\n")
}
