package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/internal/errext"
)

// TestTrainWithCritic checks that PPO with a critic, a KL in the reward and a warm start trains a step and resumes from
// the checkpoint, and that the critic's folder is a model.
func TestTrainWithCritic(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	train := func(steps string) {
		t.Helper()
		args := []string{"train", "run.toml"}
		for _, set := range []string{
			"model.fresh.walks=0", "sft.epochs=1", "algo.adv_estimator=gae", "algo.lam=0.95", "critic.mini_batch_size=0",
			"algo.use_kl_in_reward=true", "algo.kl_ctrl=adaptive", "trainer.critic_warmup=1", "trainer.total_steps=" + steps,
		} {
			args = append(args, "--set", set)
		}
		if code, _, stderr := inProcess(t, dir, args...); code != 0 {
			t.Fatalf("exit code %d\n%s", code, stderr)
		}
	}
	train("1")
	train("2")
	run := filepath.Join(dir, "runs", "tiny")
	metrics := one(t, run, "metrics.jsonl")
	for name, n := range map[string]int{`"critic/vf_loss"`: 2, `"critic/kl_coeff"`: 2, `"actor/pg_loss"`: 1} {
		if got := strings.Count(metrics, name); got != n {
			t.Errorf("%s occurs in %d lines, want %d:\n%s", name, got, n, metrics)
		}
	}
	critic := filepath.Join("runs", "tiny", "checkpoints", "step_000002", "critic")
	if code, stdout, stderr := inProcess(t, dir, "model", "info", critic); code != 0 || !strings.Contains(stdout, "llama") {
		t.Errorf("model info of the critic: exit code %d\n%s%s", code, stdout, stderr)
	}
	// A critic with another vocabulary cannot process the actor's tokens.
	link(t, tinyModel(t), dir, "other")
	code, _, stderr := inProcess(t, dir, "train", "run.toml", "--set", "algo.adv_estimator=gae", "--set", "critic.mini_batch_size=0",
		"--set", "critic.path=other", "--set", "trainer.experiment=other", "--set", "model.fresh.walks=0", "--set", "sft.epochs=1")
	if code != int(errext.Model) || !strings.Contains(stderr, "give a model with the actor's tokenizer") {
		t.Errorf("with a critic of another vocabulary: exit code %d\n%s", code, stderr)
	}
}

// TestTrainWithSharedCritic checks that a critic on the actor's decoder trains and resumes from a checkpoint without a
// second model, and that settings that a shared critic does not support are errors.
func TestTrainWithSharedCritic(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	args := func(sets ...string) []string {
		args := []string{"train", "run.toml"}
		for _, set := range append([]string{
			"model.fresh.walks=0", "sft.epochs=1", "algo.adv_estimator=gae", "critic.mini_batch_size=0", "critic.shared=true", "critic.vf_coef=0.5",
		}, sets...) {
			args = append(args, "--set", set)
		}
		return args
	}
	for _, steps := range []string{"1", "2"} {
		if code, _, stderr := inProcess(t, dir, args("trainer.critic_warmup=1", "trainer.total_steps="+steps)...); code != 0 {
			t.Fatalf("exit code %d\n%s", code, stderr)
		}
	}
	run := filepath.Join(dir, "runs", "tiny")
	metrics := one(t, run, "metrics.jsonl")
	for name, n := range map[string]int{`"critic/vf_loss"`: 2, `"actor/pg_loss"`: 1, `"perf/memory_bytes/critic":132`: strings.Count(metrics, `"perf/memory_bytes/weights"`)} {
		if got := strings.Count(metrics, name); got != n || n == 0 {
			t.Errorf("%s occurs in %d lines, want %d:\n%s", name, got, n, metrics)
		}
	}
	files, err := filepath.Glob(filepath.Join(run, "checkpoints", "step_000002", "critic", "*"))
	if err != nil || len(files) != 1 || filepath.Base(files[0]) != "value_head.safetensors" {
		t.Errorf("files in the critic's folder: %v, %v", files, err)
	}
	for _, set := range []string{"critic.path=other", "algo.adv_estimator=grpo"} {
		if code, _, stderr := inProcess(t, dir, args(set)...); code != int(errext.Input) || !strings.Contains(stderr, "shared") {
			t.Errorf("%s: exit code %d\n%s", set, code, stderr)
		}
	}
}
