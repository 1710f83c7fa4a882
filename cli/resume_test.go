package cli

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/internal/errext"
)

// tinyRun is the configuration of a training run that takes seconds. It trains a
// model of one layer on eight random walks, then on two solved mazes, then for four GRPO steps.
//
//go:embed run/testdata/tiny.toml
var tinyRun string

// TestResume checks that a run killed during its third step and then resumed has the same weights, and the same metrics
// except times, as an uninterrupted run.
func TestResume(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains three models")
	}
	whole, again, killed := t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range []string{whole, again, killed} {
		if err := os.WriteFile(filepath.Join(dir, "run.toml"), []byte(tinyRun), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	train(t, whole).wait(t)
	train(t, again).wait(t)
	sameRuns(t, "two runs with one seed", whole, again, "tiny", 4)

	// The process is killed as soon as the checkpoint of step 2 exists, that is during step 3, which is lost. On a busy
	// machine the run may end before the signal is sent; then another run is killed.
	for try := 1; ; try++ {
		p := train(t, killed)
		p.killAfter(t, "tiny", 2)
		if _, err := os.Stat(filepath.Join(killed, "runs", "tiny", "checkpoints", "step_000004")); err != nil {
			break
		}
		if try == 5 {
			t.Fatal("five runs ended before they were killed")
		}
		if err := os.RemoveAll(filepath.Join(killed, "runs")); err != nil {
			t.Fatal(err)
		}
	}
	train(t, killed).wait(t)
	sameRuns(t, "killed and resumed", whole, killed, "tiny", 4)

	interrupted := t.TempDir()
	writeFile(t, interrupted, "run.toml", tinyRun)
	p := train(t, interrupted)
	p.interruptAfter(t, "tiny", 2+3) // two lines of the pretraining on random walks and three of the warm start
	train(t, interrupted).wait(t)
	sameRuns(t, "interrupted in the warm start and resumed", whole, interrupted, "tiny", 4)
}

// TestSFTResume checks that a killed and resumed supervised run equals an uninterrupted one.
func TestSFTResume(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains two models")
	}
	whole, killed := t.TempDir(), t.TempDir()
	writeFile(t, whole, "run.toml", tinyRun)
	writeFile(t, killed, "run.toml", tinyRun)
	const epochs = "sft.epochs=12" // every epoch has one step
	openmanus(t, whole, "sft", "run.toml", "--set", epochs).wait(t)
	p := openmanus(t, killed, "sft", "run.toml", "--set", epochs)
	p.killAfter(t, "tiny-sft", 2)
	openmanus(t, killed, "sft", "run.toml", "--set", epochs).wait(t)
	sameRuns(t, "supervised, killed and resumed", whole, killed, "tiny-sft", 12)
}

type process struct {
	cmd *exec.Cmd
	dir string
	out bytes.Buffer
}

func train(t *testing.T, dir string) *process {
	t.Helper()
	return openmanus(t, dir, "train", "run.toml")
}

// openmanus starts the program in dir.
func openmanus(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	return started(t, dir, nil, args...)
}

func (p *process) wait(t *testing.T) {
	t.Helper()
	if err := p.cmd.Wait(); err != nil {
		t.Fatalf("train: %v\n%s", err, &p.out)
	}
}

// killAfter kills the process once the checkpoint of a step exists.
func (p *process) killAfter(t *testing.T, run string, step int) {
	t.Helper()
	name := filepath.Join(p.dir, "runs", run, "checkpoints", fmt.Sprintf("step_%06d", step), "manifest.json")
	p.signalWhen(t, os.Kill, func() bool {
		_, err := os.Stat(name)
		return err == nil
	})
}

// interruptAfter sends an interrupt once the metrics have the given number of lines, and checks the exit code.
func (p *process) interruptAfter(t *testing.T, run string, lines int) {
	t.Helper()
	name := filepath.Join(p.dir, "runs", run, "metrics.jsonl")
	p.signalWhen(t, os.Interrupt, func() bool {
		b, err := os.ReadFile(name)
		return err == nil && bytes.Count(b, []byte("\n")) >= lines
	})
	if code := p.cmd.ProcessState.ExitCode(); code != int(errext.Interrupted) {
		t.Fatalf("exit code %d\n%s", code, &p.out)
	}
}

// signalWhen sends a signal when ready returns true, and waits for the end of the process.
func (p *process) signalWhen(t *testing.T, sig os.Signal, ready func() bool) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- p.cmd.Wait() }()
	for deadline := time.Now().Add(5 * time.Minute); !ready(); {
		select {
		case err := <-done:
			t.Fatalf("the run ended too early: %v\n%s", err, &p.out)
		case <-time.After(2 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			_ = p.cmd.Process.Kill()
			t.Fatalf("timeout of five minutes\n%s", &p.out)
		}
	}
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	<-done
}

// sameRuns compares metrics and final weights of a run in two folders.
func sameRuns(t *testing.T, what, a, b, run string, step int) {
	t.Helper()
	if d := cmp.Diff(metricsOf(t, a, run), metricsOf(t, b, run)); d != "" {
		t.Errorf("%s: metrics differ:\n%s", what, d)
	}
	weights := filepath.Join("runs", run, "checkpoints", fmt.Sprintf("step_%06d", step), "actor", "model.safetensors")
	if !bytes.Equal(read(t, a, weights), read(t, b, weights)) {
		t.Errorf("%s: weights differ", what)
	}
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// metricsOf reads metrics.jsonl without the metrics that depend on the clock.
func metricsOf(t *testing.T, dir, run string) []map[string]any {
	t.Helper()
	var lines []map[string]any
	for s := bufio.NewScanner(bytes.NewReader(read(t, dir, filepath.Join("runs", run, "metrics.jsonl")))); s.Scan(); {
		var m map[string]any
		if err := json.Unmarshal(s.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		for name := range m {
			if name == "time" || strings.HasPrefix(name, "timing") || strings.HasPrefix(name, "perf/") || strings.HasPrefix(name, "servers/") || strings.Contains(name, "_ms/") {
				delete(m, name)
			}
		}
		lines = append(lines, m)
	}
	if len(lines) < 4 {
		t.Fatalf("%d lines of metrics", len(lines))
	}
	return lines
}
