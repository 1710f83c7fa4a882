package cli

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/env/supervise"
)

// TestWorkers checks that a run with processes that only play trains as one process does.
func TestWorkers(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains six models")
	}
	t.Parallel()
	type divided struct {
		processes, workers int // workers are the processes that only play
		level              string
	}
	for name, c := range map[string]struct {
		args    []string
		divided []divided
	}{
		"GRPO": {nil, []divided{{2, 1, "none"}, {4, 2, "none"}, {3, 1, "weights"}}},
		"PPO with a reference": {
			[]string{"--set", "algo.adv_estimator=gae", "--set", "critic.mini_batch_size=0", "--set", "actor.use_kl_loss=true", "--set", "actor.ppo_epochs=2"},
			[]divided{{2, 1, "none"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := slices.Concat([]string{"train", "run.toml"}, shortWarmStart, c.args)
			one := trained(t, args...)
			for _, d := range c.divided {
				closeRuns(t, one, trained(t, processes(d.processes, args, "--set", fmt.Sprint("dist.rollout_processes=", d.workers), "--set", "dist.shard="+d.level)...))
			}
		})
	}
}

// uidsOf returns the groups of each step of the run "tiny".
func uidsOf(t *testing.T, dir string, steps int) (uids [][]string) {
	t.Helper()
	for step := 1; step <= steps; step++ {
		var of []string
		for _, e := range episodesOf(t, filepath.Join(dir, fmt.Sprintf("runs/tiny/rollouts/step_%d.jsonl", step))) {
			if !slices.Contains(of, e.UID) {
				of = append(of, e.UID)
			}
		}
		uids = append(uids, of)
	}
	return uids
}

// TestAheadWithProcesses kills runs of several processes that play ahead and checks that the resumed runs have the tasks of one
// process in every step, within the bound of the staleness.
func TestAheadWithProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains four models")
	}
	t.Parallel()
	const steps, async = 6, 2
	args := []string{
		"train", "run.toml", "--set", "sft.epochs=2", "--set", "trainer.save_every=1", "--set", "trainer.total_steps=" + strconv.Itoa(steps),
		"--set", "rollout.deterministic=false",
	}
	want := uidsOf(t, trained(t, args...), steps)
	args = append(args, "--set", "trainer.async_steps="+strconv.Itoa(async))
	for name, c := range map[string]struct {
		processes, workers, victim int
	}{
		"two that play and train":   {2, 0, 1},
		"a trainer and a worker":    {2, 1, 1},
		"two trainers and a worker": {3, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, mark := learningFolder(t), strconv.FormatUint(rand.Uint64(), 36)
			args := processes(c.processes, args, "--set", "dist.rollout_processes="+strconv.Itoa(c.workers))
			p := started(t, dir, []string{markKey + "=" + mark}, args...)
			pid := 0
			p.signalOnce(t, func() bool {
				pid = processOf(supervise.Marked(markKey, mark), c.victim)
				return pid != 0 && len(uidFiles(t, dir)) > 1
			}, func() { _ = syscall.Kill(pid, syscall.SIGKILL) }) // it may have ended
			if code := p.code(t); code != 137 && code != 0 {
				t.Fatalf("exit code %d\n%s", code, &p.out)
			} else if code == 137 {
				mustContain(t, "stderr", p.out.String(), fmt.Sprintf("rank %d of %d (process %d)", c.victim, c.processes, pid))
			}
			openmanus(t, dir, args...).wait(t)
			if d := cmp.Diff(want, uidsOf(t, dir, steps)); d != "" {
				t.Errorf("the tasks of the steps differ from those of one process:\n%s", d)
			}
			for _, m := range metricsOf(t, dir, "tiny") {
				step, ok := m["training/global_step"].(float64)
				if stale, has := m["rollout/staleness_max"].(float64); ok && (!has || stale > min(async, step-1)) {
					t.Errorf("step %v: the staleness is %v, want at most %v", step, stale, min(async, step-1))
				}
			}
		})
	}
}

// uidFiles returns the files of episodes of the run "tiny".
func uidFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "runs/tiny/rollouts/step_*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}
