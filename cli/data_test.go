package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/internal/errext"
)

// TestTrainReportsLeaks checks that train reports leaks if it validates on a training task and on an expert task.
func TestTrainReportsLeaks(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	code, _, stderr := inProcess(t, dir, "train", "run.toml", "--set", "trainer.total_steps=1", "--set", "sft.epochs=1", "--set", "model.fresh.walks=0",
		"--set", "env.maze.tasks=18,15", "--set", "env.maze.val_tasks=15,16,17", "--set", "env.maze.expert_tasks=17")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	var leaks []string
	for line := range strings.SplitSeq(stderr, "\n") {
		if strings.Contains(line, "leak") {
			leaks = append(leaks, line)
		}
	}
	// Match " indices=15" and not "15", because the time in a log line also has digits.
	if len(leaks) != 2 || !strings.Contains(leaks[0], "trained on") || !strings.Contains(leaks[0], " indices=15") ||
		!strings.Contains(leaks[1], "imitated") || !strings.Contains(leaks[1], " indices=17") {
		t.Errorf("%d leaks are reported:\n%s", len(leaks), stderr)
	}
}

// TestDataReportsIncompleteDump checks that data commands report a truncated last line of a dump.
func TestDataReportsIncompleteDump(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "d.jsonl", `{"format":"openmanus-episodes","version":1}
{"task_id":"maze_1","env":"maze","index":1,"outcome":"success","messages":[{"role":"user","content":"u"},{"role":"assistant","content":"a"}]}
{"task_id":"maze_2","en`)
	for _, args := range [][]string{{"data", "info", "d.jsonl"}, {"data", "convert", "d.jsonl", "x.parquet"}} {
		if code, stdout, stderr := inProcess(t, dir, args...); code != 0 || !strings.Contains(stdout, "the last line is") {
			t.Errorf("%q: exit code %d\n%s%s", args, code, stdout, stderr)
		}
	}
}

// TestFailedConvertRemovesOutput checks that no output remains if the second input cannot be read.
func TestFailedConvertRemovesOutput(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "good.jsonl", `{"item_id":"maze_1"}`)
	writeFile(t, dir, "bad.jsonl", `{"item_id":"maze_1"`)
	code, _, stderr := inProcess(t, dir, "data", "convert", "good.jsonl", "bad.jsonl", "out.parquet")
	if code != int(errext.Input) || !strings.Contains(stderr, "bad.jsonl: row 0, line 1: the file ends inside") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	if left := entries(t, dir); len(left) != 2 {
		t.Errorf("remaining files: %v", left)
	}
	if _, err := os.Stat(filepath.Join(dir, "out.parquet")); err == nil {
		t.Error("out.parquet exists")
	}
}

// TestConvertCountsTokens checks that data convert counts tokens with the chat template of the model.
func TestConvertCountsTokens(t *testing.T) {
	dir := t.TempDir()
	link(t, tinyModel(t), dir, "m")
	writeFile(t, dir, "in.jsonl", `{"item_id":"maze_1","conversations":[{"from":"human","value":"u"},{"from":"gpt","value":"a"}]}
{"item_id":"maze_2","conversations":[{"from":"human","value":"u"},{"from":"gpt","value":"`+strings.Repeat("a", 100)+`"}]}`)
	code, stdout, stderr := inProcess(t, dir, "data", "convert", "in.jsonl", "out.jsonl", "--tokenizer", "m", "--max-tokens", "100", "--truncation", "drop")
	if code != 0 || !strings.Contains(stdout, "1 of 2 rows") || !strings.Contains(stdout, "1 too long") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}
