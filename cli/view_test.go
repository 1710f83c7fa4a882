package cli

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestViewOfARun trains a run and views its episodes. It checks that the page shows the texts of tokens by the tokenizer in
// the run's checkpoint.
func TestViewOfARun(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	if code, _, stderr := inProcess(t, dir, "train", "run.toml", "--set", "trainer.total_steps=1", "--set", "trainer.save_every=1", "--set", "sft.epochs=1",
		"--set", "model.fresh.walks=0", "--quiet"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	run := filepath.Join("runs", "tiny")
	code, stdout, stderr := inProcess(t, dir, "view", run, "--html", "run.html")
	if code != 0 || !strings.Contains(stdout, "run.html: ") || strings.Contains(stderr, "shown as ids") {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	page := one(t, dir, "run.html")
	mustContain(t, "page", page, "step_1.jsonl", "val_", `"text":["`, "maze_17")
	if n := len(regexp.MustCompile("<article ").FindAllString(page, -1)); n != 2*3+2*2 { // 2 tasks x 3 samples in training, 2 validations x 2 samples
		t.Errorf("%d episodes", n)
	}
	code, stdout, stderr = inProcess(t, dir, "view", filepath.Join(run, "rollouts", "step_1.jsonl"), "--html", "step.html")
	if code != 0 || strings.Contains(stderr, "shown as ids") || !strings.Contains(one(t, dir, "step.html"), `"text":["`) {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}

// TestDocumentedData checks that a run can train on the example rows of docs/data.md.
func TestDocumentedData(t *testing.T) {
	for _, m := range fenced.FindAllStringSubmatch(pages(t)["data.md"], -1) {
		if m[1] != "jsonl" {
			continue
		}
		dir := t.TempDir()
		writeFile(t, dir, "mine.jsonl", m[2])
		writeFile(t, dir, "mine.toml", tinyRun)
		code, stdout, stderr := inProcess(t, dir, "data", "info", "mine.jsonl")
		if code != 0 || !strings.Contains(stdout, "2 with a conversation") || !strings.Contains(stdout, "3 to train on") {
			t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
		}
		code, _, stderr = inProcess(t, dir, "sft", "mine.toml", "--set", `sft.files=["mine.jsonl"]`, "--set", "env.maze.expert_tasks=[]", "--set", "sft.epochs=1",
			"--set", "model.fresh.walks=0")
		if code != 0 || !strings.Contains(stderr, "rows=2 ") {
			t.Errorf("exit code %d\n%s", code, stderr)
		}
		return
	}
	t.Error("docs/data.md shows no rows")
}
