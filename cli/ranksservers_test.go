package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/env/listen/listentest"
	"github.com/openmanus/openmanus/env/supervise"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/internal/readertest"
)

// TestServersOfSeveralProcesses checks that each process starts servers on ports of its own, and that no server remains when
// a process is killed.
func TestServersOfSeveralProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains a model")
	}
	t.Parallel()
	dir := t.TempDir()
	python, base, mark := fakeCheckout(t, dir, "gym"), listentest.Ports(t, 2), strconv.FormatUint(rand.Uint64(), 36)
	writeFile(t, dir, "run.toml", strings.Replace(learningRun, "[[env]]\n", fmt.Sprintf("[[env]]\nenvironment = { %s = %q }\n", markKey, mark), 1))
	p := started(t, dir, []string{markKey + "=" + mark}, "train", "run.toml", "--processes", "2", "--set", "sft.epochs=0", "--set", "env.maze.expert_tasks=[]",
		"--set", "model.fresh.walks=0", "--set", "model.fresh.vocabulary=bytes", "--set", "rollout.max_context_tokens=3000", "--set", "data.max_prompt_tokens=2000",
		"--set", "env.maze.launch=true", "--set", "env.maze.checkout=gym", "--set", "env.maze.python="+python, "--set", fmt.Sprintf("env.maze.base_port=%d", base),
		"--set", "trainer.total_steps=10000")
	p.signalOnce(t, func() bool { return bytes.Contains(metricsText(dir), []byte(`"training/global_step":2`)) }, func() {
		for port := base; port < base+2; port++ {
			if n := len(serverPIDs(t, port)); n == 0 {
				t.Errorf("no server at port %d", port)
			}
		}
		_ = syscall.Kill(processOf(supervise.Marked(markKey, mark), 1), syscall.SIGKILL)
	})
	if code := p.code(t); code != 137 {
		t.Errorf("exit code %d\n%s", code, &p.out)
	}
	for deadline := time.Now().Add(20 * time.Second); len(supervise.Marked(markKey, mark)) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("processes %v still run\n%s", supervise.Marked(markKey, mark), &p.out)
		}
	}
}

// TestSharedServersOfSeveralProcesses checks that processes together respect the limits of the servers that they share, and
// that each episode is scored once.
func TestSharedServersOfSeveralProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains a model")
	}
	var mu sync.Mutex
	inUse, most := 0, 0
	maze, err := builtin.New("maze", builtin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		add := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			inUse += n
			most = max(most, inUse)
		}
		add(1)
		defer add(-1)
		time.Sleep(time.Millisecond) // so that requests overlap
		maze.ServeHTTP(w, r)
	}))
	defer server.Close()
	var scored []string
	scorer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Samples []struct {
				ID       string `json:"id"`
				Response string `json:"response"`
			} `json:"samples"`
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		scores := []any{}
		mu.Lock()
		for _, s := range q.Samples {
			scored = append(scored, s.ID)
			scores = append(scores, float64(len(s.Response)))
		}
		mu.Unlock()
		_ = json.NewEncoder(w).Encode(map[string]any{"scores": scores})
	}))
	defer scorer.Close()
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	args := []string{"train", "run.toml", "--set", "sft.epochs=1", "--set", "trainer.total_steps=2", "--set", "trainer.test_every=0", "--set", "trainer.val_before_train=false",
		"--set", "env.maze.val_tasks=[]", "--set", "reward.components.mine.fn=" + scorer.URL, "--set", "env.maze.servers=" + server.URL, "--set", "env.maze.max_requests=2"}
	p := openmanus(t, dir, append(args, "--processes", "2")...)
	p.wait(t)
	mu.Lock()
	defer mu.Unlock()
	if most > 2 || most == 0 {
		t.Errorf("%d requests at once, want at most 2", most)
	}
	if len(scored) != 2*6 {
		t.Errorf("%d samples were scored, want 12: %q", len(scored), scored)
	}
	p = openmanus(t, dir, append(args, "--processes", "3", "--set", "trainer.experiment=other")...)
	if code := p.code(t); code != int(errext.Input) || !strings.Contains(p.out.String(), "3 processes cannot share 1 servers") {
		t.Errorf("exit code %d with too many processes\n%s", code, &p.out)
	}
}

// TestDiskErrorOfSeveralProcesses checks that a failed write of rank 0 ends all processes with its exit code, and that the same
// command then goes on.
func TestDiskErrorOfSeveralProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains a model")
	}
	t.Parallel()
	for _, level := range []string{"none", "weights"} {
		t.Run(level, func(t *testing.T) {
			dir := learningFolder(t)
			obstacle := filepath.Join(dir, "runs/tiny/rollouts/step_2.jsonl/x")
			if err := os.MkdirAll(obstacle, 0o755); err != nil {
				t.Fatal(err)
			}
			args := append([]string{"train", "run.toml", "--set", "trainer.save_every=1", "--set", "dist.shard=" + level}, shortWarmStart...)
			for rank, p := range startEach(t, dir, 2, torchrun(freePort(t)), args...) {
				if code := p.code(t); code != int(errext.Disk) {
					t.Errorf("rank %d: exit code %d\n%s", rank, code, &p.out)
				}
				if n := strings.Count(p.out.String(), "openmanus: "); n != 1-rank {
					t.Errorf("rank %d prints %d errors\n%s", rank, n, &p.out)
				}
			}
			if err := os.RemoveAll(filepath.Dir(obstacle)); err != nil {
				t.Fatal(err)
			}
			for _, p := range startEach(t, dir, 2, torchrun(freePort(t)), args...) {
				p.wait(t)
			}
			if n := bytes.Count(metricsText(dir), []byte(`"training/global_step"`)); n != 3 {
				t.Errorf("%d steps, want 3", n)
			}
		})
	}
}

// TestTrainServeWithProcesses checks that agents in other programs play the episodes of a run of two processes.
func TestTrainServeWithProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains a model")
	}
	python := readertest.Python(t)
	dir := t.TempDir()
	link(t, tinyModel(t), dir, "my-model")
	writeFile(t, dir, "digits.toml", servePage(t, "toml")[0])
	writeFile(t, dir, "digits.py", servePage(t, "python")[1])
	ts, url, code := startTraining(t, dir, "digits.toml", "--serve", "127.0.0.1:0", "--processes", "2", "--set", "trainer.experiment=served",
		"--set", "trainer.total_steps=2", "--set", "rollout.max_context_tokens=1000")
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
	if lines := metricLines(t, filepath.Join(dir, "runs", "served")); len(lines) != 2 {
		t.Errorf("%d steps, want 2", len(lines))
	}
}
