package cli

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/openmanus/openmanus/env/listen/listentest"
	"github.com/openmanus/openmanus/env/supervise"
)

// TestTrainOnKilledServers kills servers at random during a run. It checks that the run loses no episode and that no
// process remains.
func TestTrainOnKilledServers(t *testing.T) {
	const (
		servers = 4
		kills   = 8
		markKey = "TEST_RUN"
	)
	dir := t.TempDir()
	python := fakeCheckout(t, dir, "gym")
	base := listentest.Ports(t, servers)
	mark := strconv.FormatUint(rand.Uint64(), 36)

	var mu sync.Mutex // guards the counters; only one kill at a time
	begun, killed, marked := 0, 0, 0
	resets := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		begun++
		if begun%3 != 0 || killed == kills {
			return
		}
		marked = max(marked, len(supervise.Marked(markKey, mark)))
		// Every second kill ends the server on which an episode begins, so that the instance is lost. The other kills
		// end any running server.
		var up []int
		for port := base; port < base+servers; port++ {
			if pids := serverPIDs(t, port); len(pids) > 0 && (killed%2 == 1 || strconv.Itoa(port) == r.URL.RawQuery) {
				up = append(up, pids[0])
			}
		}
		if len(up) > 0 && syscall.Kill(up[rand.New(rand.NewPCG(1, uint64(begun))).IntN(len(up))], syscall.SIGKILL) == nil {
			killed++
		}
	}))
	defer resets.Close()

	text := strings.Replace(tinyRun, "[[env]]\n", fmt.Sprintf("[[env]]\nenvironment = { %s = %q, %s = %q }\n", resetURLKey, resets.URL, markKey, mark), 1)
	writeFile(t, dir, "run.toml", text)
	args := []string{"train", "run.toml"}
	for _, set := range []string{
		"env.maze.launch=true", "env.maze.checkout=gym", "env.maze.python=" + python, fmt.Sprintf("env.maze.num_servers=%d", servers),
		fmt.Sprintf("env.maze.base_port=%d", base), "env.maze.expert_tasks=[]", "env.maze.wait_healthy_s=600", "model.fresh.walks=0", "sft.epochs=0",
		"model.fresh.vocabulary=bytes", "rollout.max_context_tokens=3000", "data.max_prompt_tokens=2000",
		"agent.episode_retries=20", "agent.episode_replays=20", "rollout.deterministic=false",
	} {
		args = append(args, "--set", set)
	}
	code, _, stderr := inProcess(t, dir, args...)
	mu.Lock()
	defer mu.Unlock()
	if code != 0 {
		t.Fatalf("exit code %d after %d kills\n%s", code, killed, stderr)
	}
	if killed < 6 || marked < servers-1 { // the last server may still be starting
		t.Errorf("too few kills: %d servers killed at %d starts of episodes, %d marked processes", killed, begun, marked)
	}
	faults := 0.0
	lines := allMetrics(t, filepath.Join(dir, "runs", "tiny"))
	for _, line := range lines {
		faults += line["servers/faults"]
		if line["rollout/dropped"] != 0 {
			t.Errorf("step %g lost %g episodes", line["step"], line["rollout/dropped"])
		}
	}
	if last := lines[len(lines)-1]; last["step"] != 4 || faults == 0 {
		t.Errorf("the run ended at step %g with %g faults, want step 4 and at least one fault", last["step"], faults)
	}
	for step := 1; step <= 4; step++ {
		if n := len(episodesOf(t, filepath.Join(dir, "runs", "tiny", "rollouts", fmt.Sprintf("step_%d.jsonl", step)))); n != 6 {
			t.Errorf("step %d has %d episodes", step, n)
		}
	}
	if left := supervise.Marked(markKey, mark); len(left) > 0 {
		t.Errorf("processes %v still run", left)
	}
	for _, pid := range watchdogs(t) {
		t.Errorf("watchdog %d still runs", pid)
	}
}
