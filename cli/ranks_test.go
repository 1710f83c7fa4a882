package cli

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env/listen/listentest"
	"github.com/openmanus/openmanus/env/supervise"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch/dist"
	"github.com/openmanus/openmanus/torch/safetensors"
)

// learningRun is tinyRun with a reward in which the episodes of a group differ, so that it learns in every step.
var learningRun = tinyRun + `
[reward.components.brief]
fn = "length"
weight = -0.5
max_length = 40
unit = "characters"
`

// shortWarmStart does not solve the mazes.
var shortWarmStart = []string{"--set", "sft.epochs=12", "--set", "trainer.total_steps=3"}

// markKey and the value that tests give it mark the processes of a run in their environment.
const markKey = "OPENMANUS_TEST_MARK"

// started is openmanus with further variables in its environment.
func started(t *testing.T, dir string, env []string, args ...string) *process {
	t.Helper()
	return startedBy(t, dir, env, append([]string{"openmanus"}, args...)...)
}

// startedBy is a command that becomes openmanus. The process ends with the test.
func startedBy(t *testing.T, dir string, env []string, command ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(command[0], command[1:]...), dir: dir}
	p.cmd.Dir, p.cmd.Env = dir, append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill() // it may have ended
			_ = p.cmd.Wait()         // an error is expected
		}
	})
	return p
}

// code waits for the end of a process and returns its exit code.
func (p *process) code(t *testing.T) int {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- p.cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		_ = p.cmd.Process.Kill()
		<-done
		t.Fatalf("the process did not end\n%s", &p.out)
	}
	return p.cmd.ProcessState.ExitCode()
}

// torchrun returns the variables that torchrun sets for a rank.
func torchrun(port string) func(rank, size int) []string {
	return func(rank, size int) []string {
		return append(dist.Env{Rank: rank, Size: size, LocalRank: rank, LocalSize: size, Host: "127.0.0.1"}.Variables(), "MASTER_PORT="+port)
	}
}

// pyTorchJob returns the variables that Kubernetes' PyTorchJob sets for a pod with one process.
func pyTorchJob(port string) func(rank, size int) []string {
	return func(rank, size int) []string {
		return []string{
			"RANK=" + strconv.Itoa(rank), "WORLD_SIZE=" + strconv.Itoa(size), "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port,
			"PET_NODE_RANK=" + strconv.Itoa(rank), "PET_MASTER_ADDR=127.0.0.1", "PET_MASTER_PORT=" + port, "PYTHONUNBUFFERED=1",
		}
	}
}

// slurm returns the variables that Slurm's srun sets for a task.
func slurm(port string) func(rank, size int) []string {
	return func(rank, size int) []string {
		return []string{
			"SLURM_PROCID=" + strconv.Itoa(rank), "SLURM_NTASKS=" + strconv.Itoa(size), "SLURM_LOCALID=" + strconv.Itoa(rank),
			"SLURM_NODEID=0", "SLURM_TASKS_PER_NODE=" + strconv.Itoa(size), "SLURM_JOB_ID=17", "SLURM_STEP_ID=0",
			"SLURM_JOB_NODELIST=localhost", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port,
		}
	}
}

// startEach starts the ranks of a run as a launcher does.
func startEach(t *testing.T, dir string, n int, variables func(rank, size int) []string, args ...string) []*process {
	t.Helper()
	ps := make([]*process, n)
	for rank := range ps {
		ps[rank] = started(t, dir, variables(rank, n), args...)
	}
	return ps
}

func freePort(t *testing.T) string { return strconv.Itoa(listentest.Ports(t, 1)) }

// learningFolder returns a new folder with learningRun as run.toml.
func learningFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", learningRun)
	return dir
}

// trained runs a command on learningRun in a new folder, and returns the folder.
func trained(t *testing.T, args ...string) string {
	t.Helper()
	dir := learningFolder(t)
	openmanus(t, dir, args...).wait(t)
	return dir
}

// processes returns args with further flags, which start n processes.
func processes(n int, args []string, more ...string) []string {
	return slices.Concat(args, []string{"--processes", strconv.Itoa(n)}, more)
}

// TestSeveralProcesses checks that two and four processes train as one does, however they are started, and that rank 0 alone
// writes the run folder.
func TestSeveralProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains six models")
	}
	t.Parallel()
	args := append([]string{"train", "run.toml"}, shortWarmStart...)
	one, two := trained(t, args...), learningFolder(t)
	closeRuns(t, one, trained(t, processes(4, args)...))
	p := openmanus(t, two, processes(2, args)...)
	p.wait(t)
	if n := strings.Count(p.out.String(), "Next:"); n != 1 {
		t.Errorf("the outcome is printed %d times\n%s", n, &p.out)
	}
	closeRuns(t, one, two)
	if n := bytes.Count(read(t, two, "runs/tiny/run.log"), []byte(`"msg":"run"`)); n != 1 {
		t.Errorf("run.log has %d runs", n)
	}
	for name, variables := range map[string]func(string) func(int, int) []string{"torchrun": torchrun, "PyTorchJob": pyTorchJob, "Slurm": slurm} {
		t.Run(name, func(t *testing.T) {
			dir := learningFolder(t)
			for _, p := range startEach(t, dir, 2, variables(freePort(t)), args...) {
				p.wait(t)
			}
			sameRuns(t, name, two, dir, "tiny", 3)
		})
	}
}

// TestMethodsOfSeveralProcesses checks that two processes, and four with a critic, train as one does by other methods.
func TestMethodsOfSeveralProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains many models")
	}
	t.Parallel()
	for name, args := range map[string][]string{
		"PPO": {"train", "run.toml", "--set", "algo.adv_estimator=gae", "--set", "critic.mini_batch_size=0", "--set", "critic.optim.lr=1e-3",
			"--set", "algo.use_kl_in_reward=true", "--set", "actor.ppo_epochs=2"},
		"a shared critic":  {"train", "run.toml", "--set", "algo.adv_estimator=gae", "--set", "critic.shared=true", "--set", "critic.mini_batch_size=0", "--set", "trainer.critic_warmup=1"},
		"dynamic sampling": {"train", "run.toml", "--set", "algo.filter_groups=true", "--set", "algo.max_gen_batches=2", "--set", "algo.adv_estimator=remax"},
		"AgentEvol":        {"train", "run.toml", "--set", "algo.name=agentevol"},
		"sharded moments":  {"train", "run.toml", "--set", "dist.shard=optimizer", "--set", "actor.use_kl_loss=true"},
		"sharded weights of actor, critic and reference": {"train", "run.toml", "--set", "algo.adv_estimator=gae", "--set", "critic.mini_batch_size=0", "--set", "critic.optim.lr=1e-3",
			"--set", "algo.use_kl_in_reward=true", "--set", "actor.ppo_epochs=2", "--set", "dist.shard=weights"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := func(n int) string {
				dir := learningFolder(t)
				if name == "AgentEvol" {
					writeFile(t, dir, "run.toml", tinyRun)
				}
				all := slices.Concat(args, shortWarmStart)
				if n > 1 {
					all = processes(n, all)
				}
				openmanus(t, dir, all...).wait(t)
				return dir
			}
			one := run(1)
			closeRuns(t, one, run(2))
			if name == "PPO" {
				closeRuns(t, one, run(4))
			}
		})
	}
}

// TestRewardModelOfSeveralProcesses checks that a reward model of sharded weights gives the same scores, also where a process
// has no episode to score.
func TestRewardModelOfSeveralProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains two models")
	}
	t.Parallel()
	one, many := t.TempDir(), t.TempDir()
	scorer := tinyRewardModel(t, 1)
	args := []string{"train", "run.toml"}
	for _, set := range []string{
		"model.fresh.walks=0", "sft.epochs=12", "trainer.total_steps=2", "reward.model_path=scorer", "reward.model_micro_batch_size=2", "rollout.group_size=4",
		"data.train_batch_size=1", "reward.model_max_tokens=760", "reward.components.taste.fn=model", "reward.components.taste.weight=0.5", "rollout.val.group_size=1",
		"actor.optim.eps=1e-5", // otherwise a weight whose gradient is a rounding error moves by a step in either direction
	} {
		args = append(args, "--set", set)
	}
	for _, dir := range []string{one, many} {
		writeFile(t, dir, "run.toml", tinyRun)
		link(t, scorer, dir, "scorer")
	}
	openmanus(t, one, args...).wait(t)
	openmanus(t, many, processes(3, args, "--set", "dist.shard=weights", "--set", "dist.timeout_s=60")...).wait(t)
	closeRuns(t, one, many)
}

// TestSFTOfSeveralProcesses checks that two processes imitate recorded conversations as one does, and report the same loss of
// held-out ones.
func TestSFTOfSeveralProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains two models")
	}
	t.Parallel()
	text := ""
	for i := range 5 {
		text += fmt.Sprintf(`{"item_id":"maze_%d","conversations":[{"from":"human","value":"the place number %d"},{"from":"gpt","value":"Action: move left","loss":true}]}`+"\n", i, i)
	}
	args := []string{"sft", "run.toml", "--set", "sft.epochs=3", "--set", "sft.files=[\"rows.jsonl\"]", "--set", "sft.val_files=[\"rows.jsonl\"]", "--set", "model.fresh.walks=0",
		"--set", "trainer.experiment=tiny", "--set", "env.maze.expert_tasks=[]", "--set", "env.maze.val_tasks=[]", "--set", "model.fresh.vocabulary=bytes"}
	one, two := t.TempDir(), t.TempDir()
	for _, dir := range []string{one, two} {
		writeFile(t, dir, "run.toml", tinyRun)
		writeFile(t, dir, "rows.jsonl", text)
	}
	openmanus(t, one, args...).wait(t)
	openmanus(t, two, processes(2, args)...).wait(t)
	near := cmp.Comparer(func(x, y float64) bool { return x == y || math.Abs(x-y) <= 1e-4*max(1e-2, math.Abs(x), math.Abs(y)) })
	was, is := metricsOf(t, one, "tiny-sft"), metricsOf(t, two, "tiny-sft")
	last := was[len(was)-1]
	if d := cmp.Diff(was, is, near); d != "" || last["val/loss"] == nil {
		t.Errorf("the metrics differ, or the last line has no loss (%v):\n%s", last["val/loss"], d)
	}
}

// closeRuns checks that two runs with other numbers of processes have the same episodes in the first step, and equal metrics
// and weights up to rounding.
func closeRuns(t *testing.T, a, b string) {
	t.Helper()
	const tolerance = 1e-4
	near := cmp.Comparer(func(x, y float64) bool {
		return x == y || math.Abs(x-y) <= tolerance*max(1e-2, math.Abs(x), math.Abs(y))
	})
	was, is := metricsOf(t, a, "tiny"), metricsOf(t, b, "tiny")
	learned := false
	for _, lines := range [][]map[string]any{was, is} {
		for _, m := range lines {
			delete(m, "engine/steps") // the batches of each process are smaller
			delete(m, "engine/rows_per_step")
			delete(m, "rollout/logprob_gap_max") // a rounding error
			norm, ok := m["actor/grad_norm"].(float64)
			learned = learned || ok && norm > 0
		}
	}
	if d := cmp.Diff(was, is, near); d != "" || !learned {
		t.Errorf("the metrics differ, or no step has a gradient (%v):\n%s", learned, d)
	}
	episodes := func(dir string) []*data.Episode {
		list := episodesOf(t, filepath.Join(dir, "runs/tiny/rollouts/step_1.jsonl"))
		for _, e := range list {
			e.Millis, e.Wave, e.WaveSize, e.Server = 0, 0, 0, ""
			for i := range e.Turns {
				e.Turns[i].GenMillis, e.Turns[i].EnvMillis = 0, 0
			}
		}
		return list
	}
	close32 := cmp.Comparer(func(x, y float32) bool { return math.Abs(float64(x-y)) <= tolerance })
	if d := cmp.Diff(episodes(a), episodes(b), close32); d != "" {
		t.Errorf("the episodes of step 1 differ:\n%s", d)
	}
	x, y := weightsIn(t, a), weightsIn(t, b)
	if len(x) == 0 || len(x) != len(y) {
		t.Fatalf("%d and %d tensors", len(x), len(y))
	}
	for name, values := range x {
		for i, v := range values {
			if d := math.Abs(float64(v - y[name][i])); !(d <= tolerance) {
				t.Errorf("%s[%d] is %g and %g", name, i, v, y[name][i])
				break
			}
		}
	}
}

// weightsIn returns the newest weights of the run "tiny".
func weightsIn(t *testing.T, dir string) map[string][]float32 {
	t.Helper()
	f, err := safetensors.Open(filepath.Join(dir, "runs", "tiny", "latest", "actor", "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string][]float32{}
	for _, name := range f.Names() {
		_, raw, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		for v := range slices.Chunk(raw, 4) {
			out[name] = append(out[name], math.Float32frombits(binary.LittleEndian.Uint32(v)))
		}
	}
	return out
}

// TestResumeWithOtherProcesses checks that a run of 2, then 1, then 4 processes with other levels of sharding that is killed in each part and resumed has
// the same weights, bit by bit, as one that is not killed.
func TestResumeWithOtherProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains two models")
	}
	t.Parallel()
	whole, killed := learningFolder(t), learningFolder(t)
	levels := map[int]string{2: "gradients", 1: "none", 4: "weights"}
	for i, n := range []int{2, 1, 4} {
		args := processes(n, []string{"train", "run.toml"}, "--set", "sft.epochs=12", "--set", "trainer.save_every=1",
			"--set", "trainer.total_steps="+strconv.Itoa(2*(i+1)), "--set", "dist.shard="+levels[n])
		openmanus(t, whole, args...).wait(t)
		for _, at := range []string{"rollouts/written:2", "checkpoint/optimizer"} {
			p := started(t, killed, []string{"OPENMANUS_CRASH_AT=" + at}, args...)
			if code := p.code(t); code != 137 && code != -1 { // -1: one process, which kills itself
				t.Fatalf("%d processes, killed at %s: exit code %d\n%s", n, at, code, &p.out)
			}
		}
		openmanus(t, killed, args...).wait(t)
	}
	sameRuns(t, "2, 1 and 4 processes, killed and resumed", whole, killed, "tiny", 6)
}

// TestKilledRank kills a process of a run at ten moments: rank 0 at points of its writing, and any rank at random times. It
// checks that each time the run ends with an exit code and without an orphan, and that it resumes and ends as a run
// without kills.
func TestKilledRank(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains two models")
	}
	t.Parallel()
	args := processes(2, []string{"train", "run.toml"}, "--set", "sft.epochs=12", "--set", "trainer.save_every=1", "--set", "trainer.total_steps=8")
	whole, killed := trained(t, args...), learningFolder(t)
	mark := strconv.FormatUint(rand.Uint64(), 36)
	end := func(p *process, what string, want ...int) (code int) {
		t.Helper()
		if code = p.code(t); !slices.Contains(want, code) {
			t.Fatalf("%s: exit code %d, want one of %d\n%s", what, code, want, &p.out)
		}
		for range 100 { // Pdeathsig may need a moment
			if len(supervise.Marked(markKey, mark)) == 0 {
				return code
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Fatalf("%s: processes %v still run\n%s", what, supervise.Marked(markKey, mark), &p.out)
		return code
	}
	for _, at := range []string{"checkpoint/actor", "checkpoint/state:2", "rollouts/write:2", "rollouts/written:2", "checkpoint/rename:2"} {
		p := started(t, killed, []string{markKey + "=" + mark, "OPENMANUS_CRASH_AT=" + at}, args...)
		end(p, at, 137)
		mustContain(t, at+": stderr", p.out.String(), "rank 0 of 2 (process ")
	}
	rng := rand.New(rand.NewPCG(1, 2))
	kills := 0
	for try := 0; kills < 5; try++ {
		if try == 20 {
			t.Fatal("20 runs ended before their kill")
		}
		p := started(t, killed, []string{markKey + "=" + mark}, args...)
		victim, pid := rng.IntN(2), 0
		p.signalOnce(t, func() bool {
			pid = processOf(supervise.Marked(markKey, mark), victim)
			return pid != 0
		}, func() { time.Sleep(time.Duration(rng.IntN(900)) * time.Millisecond) })
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		if end(p, fmt.Sprintf("kill %d of rank %d, process %d", kills, victim, pid), 137, 0) == 137 {
			kills++
		} else if err := os.RemoveAll(filepath.Join(killed, "runs")); err != nil { // the run has no steps left
			t.Fatal(err)
		}
	}
	openmanus(t, killed, args...).wait(t)
	sameRuns(t, "killed ten times and resumed", whole, killed, "tiny", 8)
}

// processOf returns the process of the list that trains as a rank, or 0. Its servers and their watchdogs have the same
// environment, and the order of process numbers says nothing.
func processOf(pids []int, rank int) int {
	read := func(pid int, file string) []string {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file)) // it may have ended
		return strings.Split(string(text), "\x00")
	}
	for _, pid := range pids {
		args := read(pid, "cmdline")
		if len(args) > 1 && args[1] == "train" && slices.Contains(read(pid, "environ"), "RANK="+strconv.Itoa(rank)) {
			return pid
		}
	}
	return 0
}

// TestHungRank checks that the other ranks of a run end when one hangs, and name it.
func TestHungRank(t *testing.T) {
	if testing.Short() {
		t.Skip("this test waits for a time-out")
	}
	t.Parallel()
	dir := learningFolder(t)
	ps := startEach(t, dir, 2, torchrun(freePort(t)), "train", "run.toml", "--set", "dist.timeout_s=8", "--set", "trainer.total_steps=10000")
	ps[0].signalOnce(t, func() bool { return bytes.Contains(metricsText(dir), []byte(`"training/global_step":2`)) }, func() {
		if err := ps[1].cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	})
	if code := ps[0].code(t); code != int(errext.Native) {
		t.Errorf("exit code %d, want %d", code, errext.Native)
	}
	mustContain(t, "stderr", ps[0].out.String(), "rank 1", "process "+strconv.Itoa(ps[1].cmd.Process.Pid), "step ")
}

// signalOnce calls f when ready returns true.
func (p *process) signalOnce(t *testing.T, ready func() bool, f func()) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ready(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the run did not begin its steps\n%s", &p.out)
		}
	}
	f()
}

// TestStopSeveralProcesses checks that a signal to one process ends all of them after the step, with a checkpoint.
func TestStopSeveralProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains two models")
	}
	t.Parallel()
	stepped := func(dir string) func() bool {
		return func() bool { return bytes.Contains(metricsText(dir), []byte(`"training/global_step":1`)) }
	}
	saved := func(t *testing.T, dir string) {
		t.Helper()
		lines := bytes.Count(metricsText(dir), []byte(`"training/global_step"`))
		if target, err := os.Readlink(filepath.Join(dir, "runs/tiny/latest")); err != nil || !strings.HasSuffix(target, fmt.Sprintf("step_%06d", lines)) {
			t.Errorf("latest is %q (%v) after %d steps", target, err, lines)
		}
	}
	args := []string{"train", "run.toml", "--set", "trainer.total_steps=10000", "--set", "trainer.save_every=0", "--set", "trainer.test_every=0"}
	t.Run("of the launcher", func(t *testing.T) {
		dir := learningFolder(t)
		p := openmanus(t, dir, processes(2, args)...)
		p.signalOnce(t, stepped(dir), func() { _ = p.cmd.Process.Signal(os.Interrupt) })
		if code := p.code(t); code != int(errext.Interrupted) {
			t.Fatalf("exit code %d\n%s", code, &p.out)
		}
		if n := strings.Count(p.out.String(), "openmanus: interrupted"); n != 2 { // at the signal and at the end
			t.Errorf("%d messages\n%s", n, &p.out)
		}
		saved(t, dir)
	})
	t.Run("of rank 1 alone", func(t *testing.T) {
		dir := learningFolder(t)
		ps := startEach(t, dir, 2, torchrun(freePort(t)), args...)
		ps[0].signalOnce(t, stepped(dir), func() { _ = ps[1].cmd.Process.Signal(syscall.SIGTERM) })
		for rank, p := range ps {
			if code := p.code(t); code != int(errext.Interrupted) {
				t.Errorf("rank %d: exit code %d\n%s", rank, code, &p.out)
			}
		}
		saved(t, dir)
	})
}

// TestStartErrorsOfSeveralProcesses checks that an error at the start ends all processes with its exit code and one message.
func TestStartErrorsOfSeveralProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("this test starts many processes")
	}
	for name, c := range map[string]struct {
		args    []string
		rank1   []string // further arguments of rank 1
		prepare func(t *testing.T, dir string)
		code    errext.ExitCode
		message string
	}{
		"no server":                  {args: []string{"--set", "env.maze.servers=http://127.0.0.1:1"}, code: errext.Env, message: "no server answers"},
		"a configuration of rank 1":  {rank1: []string{"--set", "trainer.seed=7"}, code: errext.Input, message: "the configuration of rank 1 differs"},
		"an error of rank 1":         {rank1: []string{"--set", "trainer.seed=x"}, code: errext.Input, message: "rank 1 of 2 (process "},
		"a missing model":            {args: []string{"--set", "model.fresh.layers=0", "--set", "model.fresh.walks=0", "--set", "model.path=missing"}, code: errext.Model, message: "missing"},
		"a folder without rights":    {args: []string{"--set", "trainer.output_dir=/proc/runs"}, code: errext.Disk, message: "/proc/runs"},
		"one GPU for two processes":  {args: []string{"--set", "model.device=cuda:0", "--set", "model.compute_dtype=float32"}, code: errext.Native, message: "cuda"},
		"no tasks for the processes": {args: []string{"--set", "env.maze.tasks=99999999999"}, code: errext.Input, message: "99999999999"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := learningFolder(t)
			variables := torchrun(freePort(t))
			args := append([]string{"train", "run.toml"}, c.args...)
			ps := []*process{started(t, dir, variables(0, 2), args...), started(t, dir, variables(1, 2), append(args, c.rank1...)...)}
			messages := 0
			for rank, p := range ps {
				if code := p.code(t); code != int(c.code) {
					t.Errorf("rank %d: exit code %d, want %d", rank, code, c.code)
				}
				messages += strings.Count(p.out.String(), "openmanus: ")
			}
			if !strings.Contains(ps[0].out.String(), c.message) || messages != 1 {
				t.Errorf("%d messages, want one with %q\nrank 0:\n%s\nrank 1:\n%s", messages, c.message, &ps[0].out, &ps[1].out)
			}
		})
	}
}

func TestProcessesFlag(t *testing.T) {
	dir := learningFolder(t)
	group := map[string]string{"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
	for _, c := range []struct {
		args []string
		env  map[string]string
		code errext.ExitCode
		want string
	}{
		{[]string{"--processes", "2"}, group, errext.Usage, "remove the flag"},
		{[]string{"--processes", "-1"}, nil, errext.Usage, "--processes -1"},
		{nil, map[string]string{"RANK": "0"}, errext.Input, "WORLD_SIZE"},
		{nil, map[string]string{"RANK": "2", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1"}, errext.Input, "rank 2 of 2"},
		{[]string{"--processes", "2", "--set", "trainer.seed=x"}, nil, errext.Input, "trainer.seed"},
	} {
		ts := newTestState(t, append([]string{"train", "run.toml"}, c.args...)...)
		ts.Dir, ts.Getenv = dir, func(name string) string { return c.env[name] }
		if code := Main(ts.State); code != int(c.code) || !strings.Contains(ts.err.String(), c.want) {
			t.Errorf("%q: exit code %d, want %d and %q\n%s", c.args, code, c.code, c.want, ts.err)
		}
	}
	if got := withoutFlag([]string{"o", "train", "--processes", "2", "-q", "--processes=3", "x.toml"}, "processes"); !slices.Equal(got, []string{"o", "train", "-q", "x.toml"}) {
		t.Errorf("withoutFlag returns %q", got)
	}
}

// TestDocumentedStarters runs the commands of docs/distributed.md and of configs/kubernetes with the variables of their
// launchers.
func TestDocumentedStarters(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains three models")
	}
	t.Parallel()
	page, err := os.ReadFile("../docs/distributed.md")
	if err != nil {
		t.Fatal(err)
	}
	command := func(launcher string) []string {
		m := regexp.MustCompile(`(?m)^` + launcher + ` .*openmanus (.*)$`).FindSubmatch(page)
		if m == nil {
			t.Fatalf("docs/distributed.md has no command of %s", launcher)
		}
		return strings.Fields(string(m[1]))
	}
	manifest, err := os.ReadFile("../configs/kubernetes/pytorchjob.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var args []string
	m := regexp.MustCompile(`(?m)^ *args: (\[.*\])$`).FindSubmatch(manifest)
	if m == nil || json.Unmarshal(m[1], &args) != nil {
		t.Fatal("the manifest has no args")
	}
	if !bytes.Contains(manifest, []byte(`command: ["openmanus"]`)) || bytes.Contains(manifest, []byte("env:")) {
		t.Error("the manifest runs another program, or sets variables of the operator")
	}
	for name, c := range map[string]struct {
		args      []string
		variables func(string) func(int, int) []string
	}{"torchrun": {command("torchrun"), torchrun}, "srun": {command("srun"), slurm}, "PyTorchJob": {args, pyTorchJob}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeFile(t, dir, "my.toml", learningRun)
			for _, p := range startEach(t, dir, 3, c.variables(freePort(t)), append(slices.Clip(c.args), "--set", "sft.epochs=1", "--set", "trainer.total_steps=1")...) {
				p.wait(t)
			}
			if n := bytes.Count(metricsText(dir), []byte(`"training/global_step":1`)); n != 1 {
				t.Errorf("the metrics have step 1 %d times", n)
			}
		})
	}
}
