package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/env/builtin"
)

// metricRuns lists runs that together write every metric except the metrics of testedElsewhere. A new metric needs a run or a
// setting here that writes it.
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
	{"episodes that are played ahead", []string{"train", "--set", "trainer.async_steps=1", "--set", "rollout.deterministic=false"}},
	{"AgentEvol", []string{"train", "--set", "algo.name=agentevol"}},
	{"greedy baselines", []string{"train", "--set", "algo.adv_estimator=remax"}},
	// A run that starts from an existing model validates the model before the warm start.
	{"an existing model", []string{
		"train", "--set", "model.path=MODEL", "--set", "model.fresh.layers=0", "--set", "model.fresh.walks=0",
		"--set", "reward.components.goal.weight=1", "--set", "reward.components.agentgym.weight=0.01",
	}},
	{"supervised", []string{"sft", "--set", `sft.val_files=["held-out.jsonl"]`}},
}

// testedElsewhere lists patterns of track.Table that no run of metricRuns writes, by the test that checks them. They are
// mostly metrics of failures.
var testedElsewhere = map[string][]string{
	"algo.TestFilterOverlong":       {track.OverlongTasks},
	"cli.TestTrainThroughFaults":    {track.ServerFaults + "/http_*", track.ServerFaults + "/{truncated,reset,slow,duplicate}"},
	"env/proxy.TestPoolCountsAgree": {track.ServerFaults + "/timeout"},
	"env.TestSeen":                  {track.ServerFaults + "/{refused,restarted,malformed,oversize,environment_error}"},
	"env/pool.TestRowOfFailures":    {track.Servers + "quarantines"},
	"cli.TestMixture": {
		track.Env + "*/{episodes,success_rate,mean_score,mean_turns,dropped}",
		track.Servers + "*/{requests,instances_created,quarantines}", track.Servers + "*/faults/*",
	},
	"cli.TestTrainWithRewardModel": {track.MemoryBytes + "/reward_model"},
	"algo.TestDeviceMemory":        {track.DeviceBytes, track.DevicePeakBytes, track.DeviceTime},
}

// unevenMaze serves a maze in which failed episodes have different rewards, so that every group has a spread of rewards
// and every step updates the weights.
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

// TestMetricsTable checks that track.Table, and so docs/metrics.md, lists exactly the metrics that runs write.
func TestMetricsTable(t *testing.T) {
	written := map[string]bool{} // maps each written metric to whether track.Table has it
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
		err := track.Read(filepath.Join(dir, "runs", run, "metrics.jsonl"), func(l track.Line) error {
			for name := range l.Metrics {
				written[name] = false
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
	elsewhere := map[string]bool{}
	for test, names := range testedElsewhere {
		if pkg, name, ok := strings.Cut(test, "."); !ok || !hasTest(t, pkg, name) {
			t.Errorf("testedElsewhere names %s, which is not a test", test)
		}
		for _, n := range names {
			for _, pattern := range track.Expand(n) {
				elsewhere[pattern] = true
			}
		}
	}
	for _, d := range track.Table {
		for _, pattern := range track.Expand(d.Names) {
			found := elsewhere[pattern]
			for name := range written {
				if ok, _ := path.Match(pattern, name); ok {
					found, written[name] = true, true
				}
			}
			if !found {
				t.Errorf("%s is in track.Table, but no run of metricRuns writes it, and testedElsewhere lacks it", pattern)
			}
		}
	}
	for name, defined := range written {
		if !defined {
			t.Errorf("a run writes %s, which track.Table lacks: define it in algo/track/table.go", name)
		}
	}
}

// hasTest reports whether the package in folder pkg of the module has a test called name.
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
	if !hasTest(t, "cli", "TestHasTest") || hasTest(t, "cli", "TestMissing") || hasTest(t, "nowhere", "TestHasTest") {
		t.Error("hasTest does not find this test, or finds a test that does not exist")
	}
}
