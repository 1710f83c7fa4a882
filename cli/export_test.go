package cli

import (
	"encoding/csv"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/algo/rundir/checkpoint"
	"github.com/openmanus/openmanus/internal/errext"
)

// serveMLflow starts a server that accepts the requests of the sink mlflow, and returns its address.
func serveMLflow(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"experiment":{"experiment_id":"1"},"run":{"info":{"run_id":"r"}}}`)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestTrainWithSinks trains with every sink that writes files, resumes the run with one more sink, and checks that each
// has every step once.
func TestTrainWithSinks(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	for _, run := range []struct{ steps, backends string }{{"1", `["tensorboard","wandb"]`}, {"2", `["tensorboard","wandb","csv"]`}} {
		code, _, stderr := inProcess(t, dir, "train", "run.toml", "--set", "trainer.total_steps="+run.steps, "--set", "log.backends="+run.backends)
		if code != 0 {
			t.Fatalf("exit code %d:\n%s", code, stderr)
		}
	}
	runs := filepath.Join(dir, "runs", "tiny")
	rows, err := csv.NewReader(strings.NewReader(one(t, runs, "metrics.csv"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(one(t, runs, "metrics.jsonl")), "\n")
	if len(rows) != len(lines)+1 || rows[len(rows)-1][0] != "train" || rows[len(rows)-1][1] != "2" {
		t.Errorf("metrics.csv has %d rows and metrics.jsonl %d lines", len(rows)-1, len(lines))
	}
	one(t, runs, "wandb/offline-run-*/run-*.wandb")
	if n := len(entries(t, runs, "tensorboard")); n != 2 { // the file of the first process is empty
		t.Errorf("%d event files, want 2", n)
	}

	// An export has the same contents.
	code, stdout, stderr := inProcess(t, dir, "export", "runs/tiny", "--to", "csv", "--out", "out")
	if code != 0 || one(t, dir, "out/tiny/metrics.csv") != one(t, runs, "metrics.csv") {
		t.Errorf("exit code %d, the exported file differs\n%s", code, stderr)
	}
	mustContain(t, "stdout", stdout, "lines to csv", filepath.Join("out", "tiny"))

	// A run that trains is not changed.
	lock, err := checkpoint.AcquireLock(runs)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	if code, _, stderr := inProcess(t, dir, "export", "runs/tiny", "--to", "csv"); code != int(errext.Disk) || !strings.Contains(stderr, "--out") {
		t.Errorf("exporting into the folder of a run that trains: exit code %d\n%s", code, stderr)
	}
}

func TestExportRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, run := range []string{"a/run", "b/run", "broken"} {
		if err := os.MkdirAll(filepath.Join(dir, run), 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, dir, filepath.Join(run, "metrics.jsonl"), `{"step":1,"x":1}`+"\n")
	}
	writeFile(t, dir, "broken/metrics.jsonl", "no metrics\n")
	for _, c := range []struct {
		args []string
		code errext.ExitCode
		says string
	}{
		{[]string{"a/run"}, errext.Usage, "--to"},
		{[]string{"--to", "csv"}, errext.Usage, "RUN"},
		{[]string{"a/run", "--to", "tensorbord"}, errext.Usage, "tensorboard"},
		{[]string{"a/run", "--to", "jsonl"}, errext.Usage, "jsonl"},
		{[]string{"a/run", "b/run", "--to", "csv", "--out", "o"}, errext.Usage, "same name"},
		{[]string{"a/run", "--to", "mlflow", "--out", "o"}, errext.Usage, "--out"},
		{[]string{"a/run", "--to", "mlflow"}, errext.Env, "MLFLOW_TRACKING_URI"},
		{[]string{"nowhere", "--to", "csv"}, errext.Input, "nowhere"},
		{[]string{"broken", "--to", "csv"}, errext.Disk, "line 1"},
		{[]string{"a/run", "--to", "csv", "--out", "broken/metrics.jsonl"}, errext.Disk, "metrics.jsonl"},
	} {
		if code, _, stderr := inProcess(t, dir, append([]string{"export"}, c.args...)...); code != int(c.code) || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: exit code %d, want %d and %q\n%s", c.args, code, c.code, c.says, stderr)
		}
	}
}

// TestExportInterrupted checks that an export to MLflow sends the state of the run, here that of a killed one.
func TestExportInterrupted(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "metrics.jsonl", `{"step":1,"phase":"train","time":1790000000,"x":1}`+"\n")
	var sent strings.Builder
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(&sent, r.Body) // the requests come one after the other
		_, _ = io.WriteString(w, `{"experiment":{"experiment_id":"1"},"run":{"info":{"run_id":"r"}}}`)
	}))
	defer server.Close()
	if code, _, stderr := inEnvironment(t, dir, map[string]string{"MLFLOW_TRACKING_URI": server.URL}, "export", ".", "--to", "mlflow"); code != 0 {
		t.Fatal(stderr)
	}
	mustContain(t, "the requests", sent.String(), `"status":"KILLED"`)
}

// TestTrainNeedsMLflowAddress checks that a run with mlflow and without an address ends before it trains.
func TestTrainNeedsMLflowAddress(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	code, _, stderr := inProcess(t, dir, "train", "run.toml", "--set", `log.backends=["mlflow"]`)
	if code != int(errext.Input) {
		t.Errorf("exit code %d, want %d", code, errext.Input)
	}
	mustContain(t, "stderr", stderr, "MLFLOW_TRACKING_URI")
}
