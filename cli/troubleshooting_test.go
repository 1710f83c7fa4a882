package cli

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"github.com/openmanus/openmanus/algo/rundir/checkpoint"
	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/env/fault"
	"github.com/openmanus/openmanus/env/proxy"
	"github.com/openmanus/openmanus/internal/errext"
)

// Parts of docs/troubleshooting.md: a second-level heading per trouble, and text blocks of what is printed.
var (
	troubleHeading = regexp.MustCompile(`(?m)^## (.+)$`)
	symptomBlock   = regexp.MustCompile("(?ms)^```text\n(.*?)^```$")
)

// trouble produces a symptom: it runs the program in the empty folder dir and returns what is printed.
type trouble func(t *testing.T, dir string) string

// trainTiny trains the tiny configuration with the given settings and returns the exit code and everything printed.
func trainTiny(t *testing.T, dir string, sets ...string) (errext.ExitCode, string) {
	t.Helper()
	writeFile(t, dir, "run.toml", tinyRun)
	args := []string{"train", "run.toml"}
	for _, s := range append([]string{"trainer.total_steps=1", "model.fresh.walks=0", "sft.epochs=1", "env.maze.val_tasks=[]", "trainer.val_before_train=false", "trainer.test_every=0"}, sets...) {
		args = append(args, "--set", s)
	}
	code, stdout, stderr := inProcess(t, dir, args...)
	return errext.ExitCode(code), stdout + stderr
}

// faultyMaze returns the address of a maze server with injected faults.
func faultyMaze(t *testing.T, faults string) string {
	t.Helper()
	h, err := builtin.Serve(t.Context(), "maze", "127.0.0.1:0", builtin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := fault.Parse(faults)
	if err != nil {
		t.Fatal(err)
	}
	p, err := proxy.Serve(t.Context(), "127.0.0.1:0", proxy.Options{Upstream: h.URL, Plan: plan})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Close(context.Background())
		_ = h.Close(context.Background())
	})
	return p.URL
}

// unproduced lists headings without a symptom that the program prints.
var unproduced = []string{"The first start is slow"}

// troubles maps the headings of docs/troubleshooting.md to runs that produce their symptoms.
var troubles = map[string][]trouble{
	"The reward stays flat": {func(t *testing.T, dir string) string {
		_, out := trainTiny(t, dir, "trainer.total_steps=2")
		return out
	}},
	"All groups are equal": {func(t *testing.T, dir string) string {
		_, out := trainTiny(t, dir, "algo.filter_groups=true", "algo.max_gen_batches=2")
		return out
	}},
	"Out of memory": {func(t *testing.T, dir string) string {
		_, out := trainTiny(t, dir, "rollout.kv_cache_fraction=1e-9")
		return out
	}},
	"The loss is NaN": {func(t *testing.T, dir string) string {
		if code, out := trainTiny(t, dir); code != 0 {
			t.Fatal(out)
		}
		actor := filepath.Join(dir, "runs", "tiny", "checkpoints", "step_000001", "actor")
		b := read(t, actor, "model.safetensors")
		copy(b[len(b)-4:], []byte{0, 0, 0xc0, 0x7f}) // the last weight becomes NaN
		if err := os.WriteFile(filepath.Join(actor, "model.safetensors"), b, 0o644); err != nil {
			t.Fatal(err)
		}
		args := []string{"sft", "run.toml"}
		for _, set := range []string{"model.path=" + actor, "model.fresh.layers=0", "trainer.val_before_train=false", "trainer.test_every=0", "env.maze.val_tasks=[]"} {
			args = append(args, "--set", set)
		}
		code, stdout, stderr := inProcess(t, dir, args...)
		if code != int(errext.Diverged) {
			t.Errorf("exit code %d", code)
		}
		return stdout + stderr
	}},
	"Servers are slow": {func(t *testing.T, dir string) string {
		_, out := trainTiny(t, dir, "env.maze.servers="+faultyMaze(t, "slow:300ms:0.3,seed=1"), "env.maze.step_timeout_s=0.2", "agent.episode_retries=0", "agent.episode_replays=0")
		return out + string(read(t, dir, "runs/tiny/metrics.jsonl"))
	}},
	"A server is out of service": {func(t *testing.T, dir string) string {
		_, out := trainTiny(t, dir, "env.maze.servers="+faultyMaze(t, "500:0.2,seed=1"), "env.maze.quarantine_after=1")
		return out
	}, func(t *testing.T, dir string) string {
		_, out := trainTiny(t, dir, "env.maze.servers=http://127.0.0.1:1", "env.maze.wait_healthy_s=1")
		return out
	}},
	"A prompt is too long": {func(t *testing.T, dir string) string {
		_, out := trainTiny(t, dir, "data.max_prompt_tokens=64")
		return out
	}},
	"Resuming is refused": {func(t *testing.T, dir string) string {
		if code, out := trainTiny(t, dir); code != 0 {
			t.Fatal(out)
		}
		_, out := trainTiny(t, dir, "actor.optim.lr=0.5")
		return out
	}},
	"The disk is full": {func(t *testing.T, dir string) string {
		writeFile(t, dir, "run.toml", tinyRun)
		full := exec.Command("sh", append([]string{"-c", `ulimit -f 80; exec openmanus "$@"`, "sh", "train", "run.toml"}, shortRun...)...)
		full.Dir = dir
		out, err := full.CombinedOutput()
		if err == nil {
			t.Error("the run did not fail")
		}
		return string(out)
	}},
	"A port is in use": {func(t *testing.T, dir string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, _, stderr := inProcess(t, dir, "env", "serve", "maze", "--port", fmt.Sprint(l.Addr().(*net.TCPAddr).Port))
		return stderr
	}},
	"A run is open in another process": {func(t *testing.T, dir string) string {
		folder := filepath.Join(dir, "runs", "tiny")
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		lock, err := checkpoint.AcquireLock(folder)
		if err != nil {
			t.Fatal(err)
		}
		defer lock.Release()
		_, out := trainTiny(t, dir)
		return out
	}},
}

// TestTroubleshooting produces the symptom of each section of docs/troubleshooting.md and checks that the program prints each line of the
// section's text blocks, in which … stands for any text.
func TestTroubleshooting(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains models")
	}
	text := pages(t)["troubleshooting.md"]
	headings := troubleHeading.FindAllStringSubmatchIndex(text, -1)
	for i, at := range headings {
		heading, end := text[at[2]:at[3]], len(text)
		if i+1 < len(headings) {
			end = headings[i+1][0]
		}
		t.Run(heading, func(t *testing.T) {
			var lines []string
			for _, block := range symptomBlock.FindAllStringSubmatch(text[at[1]:end], -1) {
				lines = append(lines, strings.Split(strings.TrimSpace(block[1]), "\n")...)
			}
			produce := troubles[heading]
			if slices.Contains(unproduced, heading) != (len(lines) == 0) || (len(lines) == 0) != (len(produce) == 0) {
				t.Fatalf("%d lines and %d runs: add the section to troubles", len(lines), len(produce))
			}
			out := ""
			for _, run := range produce {
				out += run(t, t.TempDir())
			}
			for _, line := range lines {
				if !regexp.MustCompile(strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*")).MatchString(out) {
					t.Errorf("the page shows %q; the program prints:\n%s", line, out)
				}
			}
		})
	}
	for heading := range troubles {
		if !strings.Contains(text, "\n## "+heading+"\n") {
			t.Errorf("the page has no section %q", heading)
		}
	}
}

// keyName matches inline code that is the name of a configuration key in a section.
var keyName = regexp.MustCompile("`((?:model|env|data|rollout|agent|algo|actor|critic|ref|reward|sft|trainer|log)\\.[a-z_.]+)(?: = [^`]*)?`")

// TestKeysInGuides checks that the keys in the guides exist.
func TestKeysInGuides(t *testing.T) {
	known := map[string]bool{}
	var add func(prefix string, x any)
	add = func(prefix string, x any) {
		switch x := x.(type) {
		case map[string]any:
			for name, value := range x {
				add(strings.TrimPrefix(prefix+"."+name, "."), value)
			}
		case []map[string]any:
			add(prefix, x[0])
		default:
			known[prefix] = true
		}
	}
	var all map[string]any
	cfg, err := schema.LoadPreset("quickstart", nil, nil)
	if err == nil {
		err = toml.Unmarshal(cfg.Marshal(), &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	add("", all)
	n := 0
	for _, name := range []string{"troubleshooting.md", "tutorial.md", "concepts.md", "deployment.md", "embedding.md"} {
		for _, m := range keyName.FindAllStringSubmatch(pages(t)[name], -1) {
			n++
			if !known[m[1]] && !strings.HasPrefix(m[1], "reward.components.") {
				t.Errorf("%s: no key is named %s", name, m[1])
			}
		}
	}
	if n == 0 {
		t.Error("no key was found in the guides")
	}
}
