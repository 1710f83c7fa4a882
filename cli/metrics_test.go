package cli

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/env/builtin"
)

// metricRuns are the runs that together write every metric. A new metric needs a run or a setting here that writes
// it.
var metricRuns = []struct {
	name string
	args []string
}{
	{"fresh model, GRPO", []string{"train", "--set", "actor.calculate_entropy=true"}},
	{"two updates a step, entropy and KL in the loss", []string{
		"train", "--set", "actor.mini_batch_size=4", "--set", "actor.entropy_coef=0.001", "--set", "actor.use_kl_loss=true",
		"--set", `curriculum.max_turns=["1:2"]`, "--set", "curriculum.sampler=success_rate",
	}},
	{"a critic, KL in the reward, correction, filtered groups", []string{
		"train", "--set", "algo.adv_estimator=gae", "--set", "critic.mini_batch_size=0", "--set", "perf.peak_tflops=1", "--set", "algo.use_kl_in_reward=true",
		"--set", "algo.filter_groups=true", "--set", "algo.rollout_correction.rollout_is=token", "--set", "algo.rollout_correction.rollout_is_threshold_lower=0.5", "--set", "algo.rollout_correction.rollout_is_batch_normalize=true",
		"--set", `algo.rollout_correction.rollout_rs=["token_k3"]`, "--set", `algo.rollout_correction.rollout_rs_threshold=["1"]`,
	}},
	{"AgentEvol", []string{"train", "--set", "algo.name=agentevol"}},
	{"greedy baselines", []string{"train", "--set", "algo.adv_estimator=remax"}},
	// The weights of an existing model are validated before the warm start.
	{"a model that is there", []string{
		"train", "--set", "model.path=MODEL", "--set", "model.fresh.layers=0", "--set", "model.fresh.walks=0",
		"--set", "reward.components.goal.weight=1", "--set", "reward.components.agentgym.weight=0.01",
	}},
	{"supervised", []string{"sft", "--set", `sft.val_files=["held-out.jsonl"]`}},
}

// unevenMaze is a maze in which no two failures have the same reward: every group has spread, so every step updates
// the weights.
func unevenMaze(t *testing.T) string {
	t.Helper()
	maze, err := builtin.New("maze", builtin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var steps atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reply := httptest.NewRecorder()
		maze.ServeHTTP(reply, r)
		body := reply.Body.Bytes()
		var step map[string]any
		if strings.HasSuffix(r.URL.Path, "/step") && json.Unmarshal(body, &step) == nil && step["done"] == false {
			step["reward"] = -1 - float64(steps.Add(1))/1000
			body, _ = json.Marshal(step)
		}
		w.Header().Set("Content-Type", reply.Header().Get("Content-Type"))
		w.WriteHeader(reply.Code)
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestMetricsTable: docs/metrics.md lists exactly the metrics that runs write.
func TestMetricsTable(t *testing.T) {
	written := map[string]bool{}
	server := "env.maze.servers=" + unevenMaze(t)
	var model string
	for _, r := range metricRuns {
		dir := t.TempDir()
		writeFile(t, dir, "run.toml", tinyRun)
		writeFile(t, dir, "held-out.jsonl", `{"item_id":"maze_3","conversations":[{"from":"human","value":"Where?"},{"from":"gpt","value":"Action: move up"}]}`)
		args := slices.Concat([]string{r.args[0], "run.toml"}, r.args[1:], shortRun, []string{"--set", server})
		for i, a := range args {
			if a == "model.path=MODEL" {
				args[i] = "model.path=" + model
			}
		}
		if code, _, stderr := inProcess(t, dir, args...); code != 0 {
			t.Fatalf("%s: exit code %d:\n%s", r.name, code, stderr)
		}
		run := entries(t, dir, "runs")[0]
		err := track.Read(filepath.Join(dir, "runs", run, "metrics.jsonl"), func(_ int, m track.Metrics) error {
			for name := range m {
				written[name] = true
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if model == "" {
			model = filepath.Join(dir, "runs", run, "best", "actor")
		}
	}
	unknown, unwritten := track.Check(slices.Sorted(maps.Keys(written)))
	for _, name := range unknown {
		t.Errorf("%s is written, but not in the table: define it in algo/track/table.go", name)
	}
	for pattern, test := range track.Elsewhere {
		if pkg, name, ok := strings.Cut(test, "."); !ok || !hasTest(t, pkg, name) {
			t.Errorf("%s is said to be seen by %s, which is no test", pattern, test)
		}
	}
	for _, name := range unwritten {
		t.Errorf("%s is in the table, but no run of metricRuns writes it, nor does track.Elsewhere name a test that sees it", name)
	}
}

// hasTest reports whether a package of this module, by its path, has a test.
func hasTest(t *testing.T, pkg, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(pkg), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.Contains(string(read(t, ".", f)), "func "+name+"(t *testing.T)") {
			return true
		}
	}
	return false
}

func TestHasTest(t *testing.T) {
	if !hasTest(t, "cli", "TestHasTest") || hasTest(t, "cli", "TestNothingOfTheKind") || hasTest(t, "nowhere", "TestHasTest") {
		t.Error("a test that is there is not found, or one that is not is")
	}
}
