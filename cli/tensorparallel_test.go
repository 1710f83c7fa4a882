package cli

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/openmanus/openmanus/agent/eval"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/internal/errext"
)

// TestPlayTensorParallel checks that rollout and eval with a model that two processes hold play the episodes of one process.
func TestPlayTensorParallel(t *testing.T) {
	if testing.Short() {
		t.Skip("this test starts processes")
	}
	tiny, dir := tinyModel(t), t.TempDir()
	link(t, tiny, dir, "m")
	if code, _, stderr := inProcess(t, dir, rolloutArgs("one.jsonl")...); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	openmanus(t, dir, rolloutArgs("two.jsonl", "--processes", "2")...).wait(t)
	want, got := readDump(t, filepath.Join(dir, "one.jsonl")), readDump(t, filepath.Join(dir, "two.jsonl"))
	diff := gocmp.Diff(want, got, cmpopts.IgnoreFields(data.Episode{}, "Millis", "Server", "Exchanges", "Created", "LogProbs"),
		cmpopts.IgnoreFields(data.Turn{}, "GenMillis", "EnvMillis"))
	if diff != "" || len(got) != 12 {
		t.Fatalf("%d episodes (-one process +two processes)\n%s", len(got), diff)
	}
	for i := range want {
		for j, lp := range want[i].LogProbs {
			if d := math.Abs(float64(lp - got[i].LogProbs[j])); !(d <= 1e-4) {
				t.Errorf("episode %d: log-prob %d differs by %.2g", i, j, d)
			}
		}
	}

	args := []string{"eval", "--json", "--model", "m", "--device", "cpu", "--env", "maze", "--tasks", "17,18", "--max-turns", "2", "--max-new-tokens", "6"}
	var results [2]eval.Result
	for i, more := range [][]string{nil, {"--processes", "2"}} {
		file := fmt.Sprintf("out%d.json", i)
		openmanus(t, dir, slices.Concat(args, []string{"--out", file}, more)...).wait(t)
		if err := json.Unmarshal(read(t, dir, file), &results[i]); err != nil {
			t.Fatal(err)
		}
	}
	if d := gocmp.Diff(results[0], results[1], cmpopts.IgnoreFields(eval.Result{}, "Infrastructure")); d != "" {
		t.Errorf("results differ (-one process +two processes)\n%s", d)
	}
}

// TestTensorParallelErrors checks errors that all processes find, and errors of rank 0 alone, which also end the other process.
func TestTensorParallelErrors(t *testing.T) {
	if testing.Short() {
		t.Skip("this test starts processes")
	}
	tiny, dir := tinyModel(t), t.TempDir() // it has 2 heads
	link(t, tiny, dir, "m")
	for _, tt := range []struct {
		name string
		args []string
		code errext.ExitCode
		want string
	}{
		{"3 processes", rolloutArgs("d.jsonl", "--processes", "3"), errext.Model, "num_attention_heads"},
		{"no server", rolloutArgs("d.jsonl", "--processes", "2", "--server", "http://127.0.0.1:1"), errext.Env, "127.0.0.1:1"},
		{"no folder", rolloutArgs("missing/d.jsonl", "--processes", "2"), errext.Disk, "missing"},
		{"endpoint", []string{"eval", "--processes", "2", "--base-url", "http://127.0.0.1:1/v1", "--api-model", "x", "--env", "maze", "--tasks", "17"}, errext.Usage, "--processes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := openmanus(t, dir, tt.args...)
			_ = p.cmd.Wait() // the code is checked
			if code := p.cmd.ProcessState.ExitCode(); code != int(tt.code) || !strings.Contains(p.out.String(), tt.want) {
				t.Errorf("exit code %d, want %d and a message with %q\n%s", code, tt.code, tt.want, &p.out)
			}
		})
	}
}

// rolloutOfTwo starts a rollout of two processes whose maze server stops to answer after 13 steps; stuck then closes.
func rolloutOfTwo(t *testing.T) (p *process, dir string, stuck <-chan struct{}) {
	t.Helper()
	if testing.Short() {
		t.Skip("this test starts processes")
	}
	tiny, dir := tinyModel(t), t.TempDir()
	link(t, tiny, dir, "m")
	url, stuck := stuckMaze(t, 13)
	return openmanus(t, dir, rolloutArgs("d.jsonl", "--processes", "2", "--server", url)...), dir, stuck
}

// TestLostTensorParallelProcess kills a process while an episode plays. The others end, and one process continues the dump.
func TestLostTensorParallelProcess(t *testing.T) {
	p, dir, stuck := rolloutOfTwo(t)
	select {
	case <-stuck:
	case <-time.After(2 * time.Minute):
		t.Fatal("no episode was played")
	}
	ranks := children(t, p.cmd.Process.Pid)
	if len(ranks) != 2 {
		t.Fatalf("processes %v, want 2", ranks)
	}
	if err := syscall.Kill(ranks[1], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err == nil {
		t.Errorf("the command succeeded without a rank\n%s", &p.out)
	}
	if !strings.Contains(p.out.String(), "rank 1") {
		t.Errorf("the lost rank is not named\n%s", &p.out)
	}
	for _, pid := range ranks {
		if err := syscall.Kill(pid, 0); err == nil {
			t.Errorf("process %d still runs", pid)
		}
	}
	if code, _, stderr := inProcess(t, dir, rolloutArgs("d.jsonl", "--continue")...); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	if n := len(readDump(t, filepath.Join(dir, "d.jsonl"))); n != 12 {
		t.Errorf("%d episodes after the second rollout, want 12", n)
	}
}

// children returns the child processes of a process in the order of their start.
func children(t *testing.T, pid int) (list []int) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range tasks {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range strings.Fields(string(text)) {
			n, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list
}

// TestInterruptedTensorParallel checks that Ctrl-C ends all processes, and that the dump keeps the finished episodes.
func TestInterruptedTensorParallel(t *testing.T) {
	p, dir, stuck := rolloutOfTwo(t)
	p.signalWhen(t, os.Interrupt, func() bool {
		select {
		case <-stuck:
			return true
		default:
			return false
		}
	})
	if code := p.cmd.ProcessState.ExitCode(); code != int(errext.Interrupted) {
		t.Errorf("exit code %d, want %d\n%s", code, errext.Interrupted, &p.out)
	}
	if n := len(readDump(t, filepath.Join(dir, "d.jsonl"))); n < 1 || n > 11 {
		t.Errorf("%d episodes before the interrupt, want 1 to 11", n)
	}
}

// TestTrainTensorParallel checks that processes that generate together train as one process does, with the whole weights on each of
// them, and with sharded weights and two engines.
func TestTrainTensorParallel(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains three models")
	}
	t.Parallel()
	args := append([]string{"train", "run.toml"}, shortWarmStart...)
	one := trained(t, args...)
	for n, level := range map[int]string{2: "none", 4: "weights"} {
		t.Run(fmt.Sprint(n, " processes"), func(t *testing.T) {
			closeRuns(t, one, trained(t, processes(n, args, "--set", "rollout.tensor_parallel_size=2", "--set", "dist.shard="+level)...))
		})
	}
}

// TestInvalidTensorParallelSizes checks settings with which processes cannot generate together.
func TestInvalidTensorParallelSizes(t *testing.T) {
	dir := learningFolder(t)
	code, _, stderr := inProcess(t, dir, "train", "run.toml", "--set", "rollout.tensor_parallel_size=2")
	if code != int(errext.Input) || !strings.Contains(stderr, "--processes 2") {
		t.Errorf("exit code %d, want %d and a message with --processes 2\n%s", code, errext.Input, stderr)
	}
	code, _, stderr = inProcess(t, dir, "train", "run.toml", "--set", "rollout.tensor_parallel_size=0")
	if code == 0 || !strings.Contains(stderr, "rollout.tensor_parallel_size") {
		t.Errorf("exit code %d, want an error that names the key\n%s", code, stderr)
	}
}
