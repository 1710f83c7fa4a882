package cli

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/internal/errext"
)

// loraRun trains adapters on the model in base: a warm start, then two GRPO steps. The frozen reference is the result of
// the warm start.
const loraRun = `
[model]
path = "base"
device = "cpu"
compute_dtype = "float32"
gradient_checkpointing = true
lora_rank = 4
lora_alpha = 8
lora_dropout = 0.1
target_modules = ["q_proj", "v_proj", "down_proj"]
[[env]]
name = "maze"
tasks = "18,17"
val_tasks = "16"
expert_tasks = "17,18"
max_turns = 2
format = "react"
[data]
train_batch_size = 2
max_prompt_tokens = 3000
[rollout]
group_size = 2
max_new_tokens = 8
max_context_tokens = 4000
max_sequences = 4
deterministic = true
[rollout.val]
temperature = 1.0
[reward]
turn_penalty = 0.1
[sft]
epochs = 3
train_batch_size = 2
micro_batch_size = 1
max_length = 4000
[sft.optim]
lr = 1e-2
[actor]
mini_batch_size = 2
micro_batch_size = 1
use_kl_loss = true
kl_loss_coef = 0.1
[actor.optim]
lr = 1e-2
[trainer]
experiment = "lora"
total_steps = 2
save_every = 1
test_every = 0
val_before_train = false
`

// TestTrainLoRA checks that a killed and resumed run of adapters has the same result to the bit, that checkpoints contain
// only the adapters, that the base model is unchanged, and that the merged model is the same policy.
func TestTrainLoRA(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains two models")
	}
	whole, killed := t.TempDir(), t.TempDir()
	base := tinyModel(t)
	for _, dir := range []string{whole, killed} {
		writeFile(t, dir, "run.toml", loraRun)
		if err := os.CopyFS(filepath.Join(dir, "base"), os.DirFS(base)); err != nil {
			t.Fatal(err)
		}
	}
	p := train(t, whole)
	p.wait(t)
	if !strings.Contains(p.out.String(), "model convert") {
		t.Errorf("stdout lacks the command that merges:\n%s", &p.out)
	}
	train(t, killed).killAfter(t, "lora", 1)
	train(t, killed).wait(t)

	actor := filepath.Join("runs", "lora", "checkpoints", "step_000002", "actor")
	weights := filepath.Join(actor, "adapter_model.safetensors")
	if !bytes.Equal(read(t, whole, weights), read(t, killed, weights)) {
		t.Error("the adapters of the resumed run differ")
	}
	if d := cmp.Diff(metricsOf(t, whole, "lora"), metricsOf(t, killed, "lora")); d != "" {
		t.Errorf("the metrics of the resumed run differ:\n%s", d)
	}
	const frozen = "model.safetensors"
	if !bytes.Equal(read(t, base, frozen), read(t, whole, filepath.Join("base", frozen))) {
		t.Error("training changed the base model")
	}
	if _, err := os.Stat(filepath.Join(whole, actor, frozen)); err == nil {
		t.Error("the checkpoint contains the frozen weights")
	}
	var config map[string]any
	if err := json.Unmarshal(read(t, whole, filepath.Join(actor, "adapter_config.json")), &config); err != nil || config["r"] != 4. ||
		config["base_model_name_or_path"] != filepath.Join(whole, "base") {
		t.Errorf("adapter_config.json: %v %v", config, err)
	}

	openmanus(t, whole, "model", "convert", actor, "merged").wait(t)
	adapted, merged, plain := logprobsOf(t, whole, actor), logprobsOf(t, whole, "merged"), logprobsOf(t, whole, "base")
	d := apart(adapted, merged)
	if !(d <= 1e-5) {
		t.Errorf("log-probs of the merged model differ by %g, want at most 1e-5", d)
	}
	t.Logf("merged on export: %.2g", d)
	if d := apart(adapted, plain); !(d > 1e-4) {
		t.Errorf("training changed log-probs by %g, want more than 1e-4", d)
	}

	// The critic of a run with adapters starts from the merged weights of the policy.
	openmanus(t, killed, "train", "run.toml", "--set", "trainer.experiment=critic", "--set", "trainer.total_steps=1",
		"--set", "algo.adv_estimator=gae", "--set", "critic.mini_batch_size=0").wait(t)

	// The base model is missing.
	other := filepath.Join(whole, "base")
	if err := os.Rename(other, other+"-moved"); err != nil {
		t.Fatal(err)
	}
	for place, args := range map[string][]string{
		filepath.Join("runs", "lora", "base"): {"model", "info", actor},
		other:                                 {"train", "run.toml", "--quiet", "--set", "trainer.total_steps=3"},
	} {
		if code, _, stderr := inProcess(t, whole, args...); code != int(errext.Model) || !strings.Contains(stderr, "base does not exist") ||
			!strings.Contains(stderr, "put it back") || !strings.Contains(stderr, place) {
			t.Errorf("%q without the base model: exit code %d, %q", args, code, stderr)
		}
	}
	if err := os.Rename(other+"-moved", other); err != nil {
		t.Fatal(err)
	}
	// The base weights have changed since the start of the run.
	if err := os.RemoveAll(other); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(whole, "merged"), other); err != nil {
		t.Fatal(err)
	}
	p = openmanus(t, whole, "train", "run.toml", "--set", "trainer.total_steps=3")
	if err := p.cmd.Wait(); err == nil || p.cmd.ProcessState.ExitCode() != int(errext.Model) || !strings.Contains(p.out.String(), "this is another base model") {
		t.Errorf("%v\n%s", err, &p.out)
	}
}

// logprobsOf returns the output of `model logprobs` in dir.
func logprobsOf(t *testing.T, dir, path string) []float64 {
	t.Helper()
	ts := newTestState(t, "model", "logprobs", "--model", path, "--device", "cpu", "--dtype", "float32")
	ts.Dir = dir
	ts.Stdin = strings.NewReader(`{"text":"go up, then left; the goal is not far"}` + "\n")
	if code := Main(ts.State); code != 0 {
		t.Fatalf("exit code %d\n%s", code, ts.err)
	}
	var line struct{ Logprobs []float64 }
	if err := json.Unmarshal([]byte(ts.out.String()), &line); err != nil || len(line.Logprobs) == 0 {
		t.Fatalf("%v: %s", err, ts.out)
	}
	return line.Logprobs
}

func apart(a, b []float64) float64 {
	worst := 0.0
	for i := range a {
		worst = math.Max(worst, math.Abs(a[i]-b[i]))
	}
	return worst
}

// TestTargetModules checks that the configuration accepts exactly the names of the model's layers.
func TestTargetModules(t *testing.T) {
	cfg, err := newTestState(t).loadConfig("", "quickstart", []string{"model.fresh.layers=0", "model.path=m", "model.lora_rank=4", `model.target_modules=["` + strings.Join(model.LoRATargets(), `","`) + `"]`})
	if err != nil || !slices.Equal(cfg.Model.TargetModules, model.LoRATargets()) {
		t.Errorf("%v %v", cfg.Model.TargetModules, err)
	}
}
