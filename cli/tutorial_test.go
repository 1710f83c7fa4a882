package cli

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// tutorialPart matches a fenced block of the tutorial, with the last inline code of the text right before it.
var tutorialPart = regexp.MustCompile("(?s)(?:`([^`\n]+)`[^`\n]*:\n\n)?```([a-z]+)\n(.*?)```")

// tutorialTraining has the settings that shorten a training command of the tutorial, by the configuration that it names.
var tutorialTraining = map[string]string{
	"": "model.fresh.walks=4 model.fresh.layers=1 model.fresh.hidden_size=32 model.fresh.intermediate_size=64 env.maze.expert_tasks=17 env.maze.tasks=17,18 env.maze.val_tasks=16 " +
		"env.maze.max_turns=2 data.train_batch_size=2",
	"counter/config.toml": "env.counter.val_tasks=0 data.train_batch_size=2",
	"larger.toml":         "data.train_batch_size=4",
}

// TestTutorial follows docs/tutorial.md in one folder: it writes the files of the page and runs the commands in order, with shorter training.
// It leaves out commands that need a network.
func TestTutorial(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains models")
	}
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("this test needs python3")
	}
	dir := t.TempDir()
	commands := 0
	for _, part := range tutorialPart.FindAllStringSubmatch(pages(t)["tutorial.md"], -1) {
		name, language, text := part[1], part[2], part[3]
		if language != "sh" {
			path := filepath.Join(dir, name)
			if name == "" {
				t.Fatalf("the text before this block names no file:\n%s", text)
			}
			if old, err := os.ReadFile(path); err == nil { // the page appends to a file of an earlier command
				text = string(old) + "\n" + text
			}
			writeFile(t, dir, name, text)
			continue
		}
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "mkdir ") || strings.Contains(line, "model fetch") || strings.HasSuffix(line, " my.toml") {
				continue
			}
			commands++
			run := line
			if words := strings.Fields(line); words[0] == "openmanus" && words[1] == "train" {
				config := ""
				if len(words) > 2 && !strings.HasPrefix(words[2], "-") {
					config = words[2]
				}
				for set := range strings.FieldsSeq(tutorialTraining[config] + " sft.epochs=1 rollout.group_size=2 rollout.val.group_size=1 trainer.total_steps=1") {
					run += " --set " + set
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			cmd := exec.CommandContext(ctx, "sh", "-c", run)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			cancel()
			if err != nil {
				t.Fatalf("%s: %v\n%s", run, err, out)
			}
		}
	}
	if commands < 12 {
		t.Errorf("only %d commands were found", commands)
	}
	for _, name := range []string{"curves.html", "episodes.html", "my.toml", "counter/server.py", "brief/reward.py", "larger-val.jsonl", "my-model/model.safetensors"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}
