package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/internal/readertest"
)

// servePage returns the fenced blocks of docs/serve.md in a language.
func servePage(t *testing.T, language string) (blocks []string) {
	t.Helper()
	page, err := os.ReadFile("../docs/serve.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range fenced.FindAllStringSubmatch(string(page), -1) {
		if m[1] == language {
			blocks = append(blocks, m[2])
		}
	}
	return blocks
}

var servedAt = regexp.MustCompile(`base_url=(http://\S+)`)

// metricLines returns the lines of the steps in the metrics of a run.
func metricLines(t *testing.T, dir string) (lines []map[string]any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		var m map[string]any
		if err := json.Unmarshal(s.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		if _, ok := m["actor/lr"]; ok {
			lines = append(lines, m)
		}
	}
	return lines
}

// startTraining starts a training with --serve and returns the base_url of its server and the exit code.
func startTraining(t *testing.T, dir string, args ...string) (ts *testState, url string, code <-chan int) {
	t.Helper()
	ts = newTestState(t, append([]string{"train"}, args...)...)
	ts.Dir = dir
	ended := make(chan int, 1)
	go func() { ended <- Main(ts.State) }()
	for deadline := time.Now().Add(60 * time.Second); url == ""; time.Sleep(20 * time.Millisecond) {
		if m := servedAt.FindStringSubmatch(ts.err.String()); m != nil {
			url = m[1]
		}
		select {
		case c := <-ended:
			t.Fatalf("exit code %d\n%s", c, ts.err)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("no server:\n%s", ts.err)
		}
	}
	return ts, url, ended
}

// checkTrainServe starts a documented training with agents in other programs, and interrupts it while it waits for them. The same
// command then resumes the run.
func checkTrainServe(t *testing.T, tiny string, args []string) {
	t.Helper()
	r := &docRun{dir: t.TempDir(), args: args}
	link(t, tiny, r.dir, "my-model")
	writeFile(t, r.dir, r.leading("digits.toml")[0], servePage(t, "toml")[0])
	r.args = append(r.args, "--serve", "127.0.0.1:0")
	for _, want := range []string{"starting at step 0", "resuming after step 0"} {
		ts, url, code := startTraining(t, r.dir, r.args...)
		mustContain(t, "the messages", ts.err.String(), want)
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		reply, err := client.Get(url + "/models")
		if err != nil {
			t.Fatal(err)
		}
		reply.Body.Close()
		ts.signals <- syscall.SIGTERM
		if c := <-code; c != int(errext.Interrupted) || reply.StatusCode != http.StatusOK {
			t.Errorf("exit code %d, status %d\n%s", c, reply.StatusCode, ts.err)
		}
	}
}

// TestTrainServe trains with the agent and the configuration of docs/serve.md: the reward rises, the log-probs of sampling
// and training agree, and the dump of the first step gives the same update.
func TestTrainServe(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains a model")
	}
	python := readertest.Python(t)
	dir := t.TempDir()
	link(t, tinyModel(t), dir, "my-model")
	writeFile(t, dir, "digits.toml", servePage(t, "toml")[0]+"\n[[env]]\nname = \"maze\"\nweight = 0\nval_tasks = [\"16\"]\nmax_turns = 2\n")
	writeFile(t, dir, "digits.py", servePage(t, "python")[1])

	ts, url, code := startTraining(t, dir, "digits.toml", "--serve", "127.0.0.1:0", "--set", "trainer.experiment=served", "--set", "trainer.save_every=1",
		"--set", "trainer.keep_checkpoints=0", "--set", "trainer.total_steps=12", "--set", "trainer.val_before_train=true", "--set", "rollout.max_context_tokens=1000")
	agent := exec.CommandContext(t.Context(), python, filepath.Join(dir, "digits.py"), url)
	var said bytes.Buffer
	agent.Stdout, agent.Stderr = &said, &said
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	if c := <-code; c != 0 {
		t.Fatalf("exit code %d\n%s", c, ts.err)
	}
	if err := agent.Wait(); err != nil {
		t.Errorf("the agent: %v\n%s", err, said.String())
	}
	if n := strings.Count(said.String(), "\n"); n < 12*16 || n > 13*16 {
		t.Errorf("the agent played %d episodes, want about %d", n, 12*16)
	}

	if strings.Contains(ts.err.String(), "level=WARN") {
		t.Errorf("agents that wait at the end of a training are no reason for warnings:\n%s", ts.err)
	}

	run := filepath.Join(dir, "runs", "served")
	mustContain(t, "the metrics", one(t, run, "metrics.jsonl"), "val/maze/success_rate")
	lines := metricLines(t, run)
	if len(lines) != 12 {
		t.Fatalf("%d steps, want 12", len(lines))
	}
	for i, m := range lines {
		if gap := m["rollout/logprob_gap_mean"].(float64); gap > 1e-5 || gap <= 0 {
			t.Errorf("step %d: the log-probs of sampling and training differ by %g", i+1, gap)
		}
	}
	score := func(m map[string]any) float64 { return m["critic/score/mean"].(float64) }
	before, after := (score(lines[0])+score(lines[1]))/2, (score(lines[10])+score(lines[11]))/2
	t.Logf("share of digits %.3f -> %.3f, gap %v", before, after, lines[0]["rollout/logprob_gap_mean"])
	if after < before+0.1 {
		t.Errorf("the share of digits is %.3f in the first two steps and %.3f in the last two", before, after)
	}

	mustContain(t, "stdout", ts.out.String(), "openmanus serve "+run)
	checkServeModel(t, run, []string{"served"})

	dump := filepath.Join(run, "rollouts", "step_1.jsonl")
	episodes := readDump(t, dump)
	groups := map[string]int{}
	for _, e := range episodes {
		groups[e.UID]++
		if len(e.Turns) != 2 || len(e.Contexts) > 0 || len(e.Messages) != 5 || e.SampledTokens() != e.Turns[0].End-e.Turns[0].Start+e.Turns[1].End-e.Turns[1].Start {
			t.Errorf("episode %s/%d: %d turns, contexts %v, %d messages, %d sampled tokens", e.UID, e.Sample, len(e.Turns), e.Contexts, len(e.Messages), e.SampledTokens())
		}
	}
	if groups["1/remote/number"] != 8 || groups["1/remote/count"] != 8 || len(episodes) != 16 {
		t.Errorf("the groups are %v, want 8 episodes of each task of the agent", groups)
	}
	exit, _, stderr := inProcess(t, dir, "train", "digits.toml", "--from-dump", dump, "--off-policy", "--set", "trainer.experiment=again", "--set", "serve.listen=", "--set", "env.maze.weight=1", "--set", "env.maze.tasks=1")
	if exit != 0 {
		t.Fatalf("exit code %d\n%s", exit, stderr)
	}
	again := metricLines(t, filepath.Join(dir, "runs", "again-dump"))
	for _, name := range []string{"actor/grad_norm", "critic/advantages/max", "critic/score/mean", "episode/length/mean"} {
		served, ok := lines[0][name].(float64)
		replayed, both := again[0][name].(float64)
		if ok != both || math.Abs(served-replayed) > 1e-4*math.Abs(served) {
			t.Errorf("%s is %v with the agent and %v from the dump", name, lines[0][name], again[0][name])
		}
	}
	if gap := again[0]["rollout/logprob_gap_mean"].(float64); gap > 1e-5 {
		t.Errorf("the recorded log-probs differ by %g from those of the weights that played", gap)
	}
}
