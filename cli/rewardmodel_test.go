package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
)

// tinyRewardModel writes a classifier with random weights and with the tokenizer
// and the chat template of tinyModel.
func tinyRewardModel(t *testing.T, labels int) string {
	t.Helper()
	th, err := torch.NewThread(torch.Device{})
	if err != nil {
		t.Fatal(err)
	}
	defer th.Close()
	b, err := model.Open(t.Context(), th, tinyModel(t), model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	c := b.Model.Config
	c.Labels, c.InitializerRange = labels, 0.3
	m, err := model.New(t.Context(), th, c, 7, torch.Float32)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	own := *b
	own.Model = m
	dir := filepath.Join(t.TempDir(), "reward")
	if err := own.Save(t.Context(), dir, torch.Float32); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestTrainWithRewardModel trains and validates with the sum of a reward model and the environment's reward. It checks
// that `model info` describes the reward model and that `score` uses it.
func TestTrainWithRewardModel(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains a model")
	}
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	link(t, tinyRewardModel(t, 1), dir, "scorer")
	args := []string{"train", "run.toml"}
	for _, set := range []string{
		"model.fresh.walks=0", "sft.epochs=1", "trainer.total_steps=1", "reward.model_path=scorer", "reward.model_micro_batch_size=2",
		"reward.model_max_tokens=200", "reward.components.goal.weight=1", "reward.components.taste.fn=model", "reward.components.taste.weight=0.5",
	} {
		args = append(args, "--set", set)
	}
	code, _, stderr := inProcess(t, dir, args...)
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	mustContain(t, "stderr", stderr, "  reward 0.", "  score ") // the training score differs from the environment's reward
	metrics := one(t, filepath.Join(dir, "runs", "tiny"), "metrics.jsonl")
	for _, want := range []string{`"reward/goal/mean"`, `"reward/taste/mean"`, `"reward/taste/tokens":200`, `"reward/taste/truncated":1`, `"val/maze/reward/taste/mean"`, `"perf/memory_bytes/reward_model":`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in %s", want, metrics)
		}
	}
	if code, stdout, stderr := inProcess(t, dir, "model", "info", "scorer"); code != 0 || !strings.Contains(stdout, "a reward model") {
		t.Errorf("model info: exit code %d\n%s%s", code, stdout, stderr)
	}
	if code, _, stderr := inProcess(t, dir, "model", "convert", "scorer", "copy"); code != int(errext.Model) || !strings.Contains(stderr, "sequence classifier") {
		t.Errorf("model convert: exit code %d\n%s", code, stderr)
	}

	// A reward model can score a reply only with its prompt.
	writeFile(t, dir, "replies.jsonl", `{"prompt":"Where?","responses":["Up."]}`+"\n"+`{"responses":["Up."]}`+"\n")
	score := []string{"score", "replies.jsonl", "--score-fn", "model", "--reward-model", "scorer", "--device", "cpu"}
	if code, _, stderr := inProcess(t, dir, score...); code != int(errext.Model) || !strings.Contains(stderr, "row_1_0") {
		t.Errorf("score without a prompt: exit code %d\n%s", code, stderr)
	}
	writeFile(t, dir, "replies.jsonl", `{"prompt":"Where?","responses":["Up.","Down, or up."]}`+"\n")
	if code, stdout, stderr := inProcess(t, dir, score...); code != 0 || !strings.Contains(stdout, "reward/model/mean") {
		t.Errorf("score: exit code %d\n%s%s", code, stdout, stderr)
	}
	for _, wrong := range [][]string{{"score", "replies.jsonl", "--score-fn", "model"}, {"score", "replies.jsonl", "--score-fn", "math", "--reward-model", "scorer"}} {
		if code, _, stderr := inProcess(t, dir, wrong...); code != int(errext.Usage) || !strings.Contains(stderr, "reward-model") {
			t.Errorf("%q: exit code %d\n%s", wrong, code, stderr)
		}
	}
}
