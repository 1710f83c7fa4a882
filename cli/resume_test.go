package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// tinyRun is a whole training run of seconds: a model of one layer, a warm
// start on two solved mazes, four GRPO steps.
const tinyRun = `
[model]
device = "cpu"
compute_dtype = "float32"
[model.fresh]
layers = 1
hidden_size = 32
intermediate_size = 64
heads = 2
kv_heads = 1
vocabulary = "bpe"
vocab_size = 384
[[env]]
name = "maze"
tasks = "18,17"
val_tasks = "16"
expert_tasks = "17,18"
max_turns = 3
format = "react"
[data]
train_batch_size = 2
max_prompt_tokens = 512
[rollout]
group_size = 3
max_new_tokens = 8
max_context_tokens = 768
max_sequences = 8
deterministic = true
[rollout.val]
temperature = 1.0
group_size = 2
[sft]
epochs = 40
train_batch_size = 2
micro_batch_size = 1
max_length = 768
[sft.optim]
lr = 1e-2
[actor]
mini_batch_size = 0
micro_batch_size = 2
[actor.optim]
lr = 1e-3
[trainer]
experiment = "tiny"
total_steps = 4
save_every = 2
test_every = 2
`

// TestResume: training four steps and training two, dying by kill -9 during
// the third and resuming give the same metrics, timings aside, and the same
// weights.
func TestResume(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains three times")
	}
	whole, again, killed := t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range []string{whole, again, killed} {
		if err := os.WriteFile(filepath.Join(dir, "run.toml"), []byte(tinyRun), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	train(t, whole).wait(t)
	train(t, again).wait(t)
	sameRuns(t, "two runs with one seed", whole, again)

	// The third step has no delay to be caught in, so it is killed as soon as
	// the second is on disk; whatever it was doing is lost.
	p := train(t, killed)
	p.killAfter(t, 2)
	if _, err := os.Stat(filepath.Join(killed, "runs", "tiny", "checkpoints", "step_000004")); err == nil {
		t.Fatal("the run ended before it was killed")
	}
	train(t, killed).wait(t)
	sameRuns(t, "killed and resumed", whole, killed)
}

type process struct {
	cmd *exec.Cmd
	dir string
	out bytes.Buffer
}

func train(t *testing.T, dir string) *process {
	t.Helper()
	p := &process{cmd: exec.Command("openmanus", "train", "run.toml"), dir: dir}
	p.cmd.Dir = dir
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) wait(t *testing.T) {
	t.Helper()
	if err := p.cmd.Wait(); err != nil {
		t.Fatalf("train: %v\n%s", err, &p.out)
	}
}

// killAfter kills the process once the checkpoint of a step is there.
func (p *process) killAfter(t *testing.T, step int) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- p.cmd.Wait() }()
	name := filepath.Join(p.dir, "runs", "tiny", "checkpoints", "step_000002", "manifest.json")
	for deadline := time.Now().Add(5 * time.Minute); ; {
		if _, err := os.Stat(name); err == nil {
			break
		}
		select {
		case err := <-done:
			t.Fatalf("train ended before step %d was saved: %v\n%s", step, err, &p.out)
		case <-time.After(2 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			_ = p.cmd.Process.Kill()
			t.Fatalf("no checkpoint of step %d after five minutes\n%s", step, &p.out)
		}
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-done
}

// sameRuns compares metrics and final weights of two run folders.
func sameRuns(t *testing.T, what, a, b string) {
	t.Helper()
	if d := cmp.Diff(metricsOf(t, a), metricsOf(t, b)); d != "" {
		t.Errorf("%s: metrics differ:\n%s", what, d)
	}
	weights := filepath.Join("runs", "tiny", "checkpoints", "step_000004", "actor", "model.safetensors")
	if !bytes.Equal(read(t, a, weights), read(t, b, weights)) {
		t.Errorf("%s: weights differ", what)
	}
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// metricsOf reads metrics.jsonl without what depends on the clock.
func metricsOf(t *testing.T, dir string) []map[string]any {
	t.Helper()
	var lines []map[string]any
	for s := bufio.NewScanner(bytes.NewReader(read(t, dir, filepath.Join("runs", "tiny", "metrics.jsonl")))); s.Scan(); {
		var m map[string]any
		if err := json.Unmarshal(s.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		for name := range m {
			if strings.HasPrefix(name, "timing") || strings.HasPrefix(name, "perf/") || strings.Contains(name, "_ms/") {
				delete(m, name)
			}
		}
		lines = append(lines, m)
	}
	if len(lines) < 4 {
		t.Fatalf("%d lines of metrics", len(lines))
	}
	return lines
}
