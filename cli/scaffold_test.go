package cli

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/env/listen/listentest"
	"github.com/openmanus/openmanus/internal/errext"
)

// unittest runs the tests of a written folder with python3.
func unittest(t *testing.T, dir, module string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "python3", "-m", "unittest", module)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "\nOK") {
		t.Errorf("%s: %v\n%s", module, err, out)
	}
}

// python starts a program of a written folder and returns the address that it prints.
func python(t *testing.T, dir string, args ...string) (url string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "python3", args...)
	cmd.Dir = dir
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	_, url, ok := strings.Cut(strings.TrimSpace(line), " on ")
	if err != nil || !ok {
		t.Fatalf("the program prints %q (%v), want its address", line, err)
	}
	return url
}

// shortTraining are settings that reduce the training of a written configuration to about a second.
var shortTraining = []string{"--set", "trainer.total_steps=1", "--set", "rollout.group_size=2", "--set", "data.train_batch_size=2", "--set", "model.device=cpu"}

// TestEnvNew checks the folder of a new environment: its test passes, the server conforms to the protocol, and the
// configuration starts the server and trains.
func TestEnvNew(t *testing.T) {
	dir := t.TempDir()
	port := listentest.Ports(t, 1)
	code, stdout, stderr := inProcess(t, dir, "env", "new", "lift", "--port", strconv.Itoa(port))
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	mustContain(t, "stdout", stdout, "lift/server.py", "env check http://127.0.0.1:"+strconv.Itoa(port), "train lift/config.toml")
	for _, name := range entries(t, dir, "lift") {
		if text := one(t, dir, "lift/"+name); strings.Contains(text, "{{") {
			t.Errorf("%s has a placeholder:\n%s", name, text)
		}
	}
	unittest(t, filepath.Join(dir, "lift"), "test_server.py")

	url := python(t, dir, "lift/server.py", "--port", "0")
	if code, stdout, stderr := inProcess(t, dir, "env", "check", url, "--env", "agentgym", "--actions", "one,jump", "--tasks", "0,5", "--steps", "3"); code != 0 || strings.Contains(stdout, "WARN") {
		t.Errorf("exit code %d\n%s\n%s", code, stderr, stdout)
	}

	if code, _, stderr := inProcess(t, dir, "config", "check", "lift/config.toml"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	args := append([]string{"train", "lift/config.toml", "--set", "sft.epochs=60", "--set", "actor.optim.lr=1e-4", "--set", "rollout.val.group_size=2"}, shortTraining...)
	if code, _, stderr := inProcess(t, dir, args...); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	solved := 0.0
	for _, e := range readDump(t, filepath.Join(dir, "runs/lift/rollouts/val_after_lift.jsonl")) {
		if want := e.Turns[len(e.Turns)-1].Reward; e.Reward != want || !strings.HasPrefix(e.Server, "http://127.0.0.1:"+strconv.Itoa(port)) {
			t.Errorf("an episode on %s has reward %g, want %g", e.Server, e.Reward, want)
		}
		for _, turn := range e.Turns {
			if action, ok := strings.CutPrefix(turn.Text, "Action: "); ok && turn.Action != strings.TrimSpace(action) {
				t.Errorf("the reply %q became the action %q", turn.Text, turn.Action)
			}
		}
		solved += e.Reward
	}
	if solved == 0 {
		t.Error("the model learned nothing from the examples")
	}

	// A running server is used without a kind, and by the commands that play.
	code, stdout, stderr = inProcess(t, dir, "eval", "--env", "lift", "--server", url, "--tasks", "0-3", "--model", "runs/lift/latest/actor", "--max-new-tokens", "16", "--max-turns", "3")
	if code != 0 || !strings.Contains(stdout, "lift: 4 tasks") {
		t.Errorf("exit code %d\n%s\n%s", code, stderr, stdout)
	}
	for _, c := range [][]string{
		{"rollout", "--env", "lift", "--server", url, "--tasks", "0-1", "--model", "runs/lift/latest/actor", "--max-new-tokens", "8", "--max-turns", "2", "--format", "tool_call", "--dump", "d.jsonl"},
		{"replay", "d.jsonl", "--model", "runs/lift/latest/actor"},
	} {
		if code, _, stderr := inProcess(t, dir, c...); code != 0 {
			t.Errorf("%q: exit code %d\n%s", c, code, stderr)
		}
	}
}

// pageCommands returns the commands in the code blocks of a page, in order.
func pageCommands(t *testing.T, page string) [][]string {
	t.Helper()
	var all [][]string
	for _, block := range fenced.FindAllStringSubmatch(pages(t)[page], -1) {
		if block[1] != "sh" {
			continue
		}
		for _, line := range commandLine.FindAllStringSubmatch(block[2], -1) {
			all = append(all, strings.Fields(line[1]))
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s has no commands", page)
	}
	return all
}

// TestOwnEnvironmentPage runs the commands of the page on one's own environment in order, in one folder.
func TestOwnEnvironmentPage(t *testing.T) {
	dir := t.TempDir()
	for _, args := range pageCommands(t, "own-environment.md") {
		switch strings.Join(args[:2], " ") {
		case "env check":
			args[2] = python(t, dir, "lift/server.py", "--port", "0")
		case "train lift/config.toml":
			args = slices.Concat(args, shortTraining, []string{"--set", "sft.epochs=1", "--set", "rollout.val.group_size=1", "--set", "env.lift.base_port=" + strconv.Itoa(listentest.Ports(t, 1))})
		}
		if code, stdout, stderr := inProcess(t, dir, args...); code != 0 {
			t.Fatalf("%q: exit code %d\n%s\n%s", args, code, stderr, stdout)
		}
	}
	one(t, dir, "runs/lift/checkpoints/step_000001/actor/model.safetensors")
}

// TestPromptTasksPage runs the commands of the page on prompt tasks on its rows and its configuration.
func TestPromptTasksPage(t *testing.T) {
	dir := t.TempDir()
	link(t, tinyModel(t), dir, "my-model")
	for _, block := range fenced.FindAllStringSubmatch(pages(t)["prompt-tasks.md"], -1) {
		switch {
		case block[1] == "json":
			writeFile(t, dir, "sums.jsonl", block[2])
			writeFile(t, dir, "sums-val.jsonl", strings.ReplaceAll(block[2], "3", "2"))
		case block[1] == "toml" && strings.Contains(block[2], `name = "sums"`):
			writeFile(t, dir, "sums.toml", block[2])
		}
	}
	for _, args := range pageCommands(t, "prompt-tasks.md") {
		switch args[0] {
		case "train":
			args = append(args, shortTraining...)
			fallthrough
		case "eval":
			args = append(args, "--set", "rollout.max_new_tokens=4")
		}
		if code, stdout, stderr := inProcess(t, dir, args...); code != 0 {
			t.Fatalf("%q: exit code %d\n%s\n%s", args, code, stderr, stdout)
		}
	}
	one(t, dir, "runs/sums/checkpoints/step_000001/actor/model.safetensors")
}

// TestRewardNew checks the folder of a new score function: its test passes, and the configuration trains with it as a
// program and as a server.
func TestRewardNew(t *testing.T) {
	dir := t.TempDir()
	if code, stdout, stderr := inProcess(t, dir, "reward", "new", "judge", "--dir", "scorers/judge"); code != 0 || !strings.Contains(stdout, "scorers/judge/reward.py") {
		t.Fatalf("exit code %d\n%s\n%s", code, stderr, stdout)
	}
	unittest(t, filepath.Join(dir, "scorers/judge"), "test_reward.py")
	url := python(t, dir, "scorers/judge/reward.py", "--port", strconv.Itoa(listentest.Ports(t, 1)))
	for i, sets := range [][]string{nil, {"--set", "reward.score_fn=" + url + "/"}} {
		name := fmt.Sprintf("judge%d", i)
		args := slices.Concat([]string{"train", "scorers/judge/config.toml", "--set", "trainer.experiment=" + name}, shortTraining, sets)
		if code, _, stderr := inProcess(t, dir, args...); code != 0 {
			t.Fatalf("exit code %d\n%s", code, stderr)
		}
		scheme := []string{"exec", "http"}[i]
		mustContain(t, "metrics", one(t, dir, "runs/"+name+"/metrics.jsonl"), "reward/"+scheme+"/mean")
	}
}

// TestNewFaults checks names and folders that are refused, and that nothing is overwritten.
func TestNewFaults(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "taken/notes.txt", "mine")
	for _, c := range []struct {
		args []string
		code errext.ExitCode
		want string
	}{
		{[]string{"env", "new", "maze"}, errext.Usage, "maze is a known environment"},
		{[]string{"env", "new", "two words"}, errext.Usage, "a name consists of letters"},
		{[]string{"env", "new", "lift", "--port", "0"}, errext.Usage, "--port"},
		{[]string{"env", "new", "lift", "--dir", `a"b`}, errext.Usage, "--dir"},
		{[]string{"env", "new", "lift", "--dir", "taken"}, errext.Input, "taken exists and is not empty"},
		{[]string{"reward", "new", "taken"}, errext.Input, "choose another folder with --dir"},
		{[]string{"reward", "new", "../up"}, errext.Usage, "a name consists of letters"},
	} {
		if code, _, stderr := inProcess(t, dir, c.args...); code != int(c.code) || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit code %d, want %d and %q:\n%s", c.args, code, c.code, c.want, stderr)
		}
	}
	if list, err := os.ReadDir(filepath.Join(dir, "taken")); err != nil || len(list) != 1 {
		t.Errorf("the folder taken has %v (%v)", list, err)
	}
}
