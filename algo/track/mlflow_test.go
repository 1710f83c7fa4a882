package track

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/openmanus/openmanus/internal/readertest"
)

// mlflowServer answers as MLflow does and records what it receives.
type mlflowServer struct {
	*httptest.Server
	mu      sync.Mutex
	down    bool // every request fails with status 503
	deleted bool // the run does not exist
	runs    int
	largest int // number of metrics of the largest request
	metrics []string
	params  map[string]string
	status  []string
	auth    string
}

func newMLflowServer(t *testing.T) *mlflowServer {
	s := &mlflowServer{params: map[string]string{}}
	missing := func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"error_code":"RESOURCE_DOES_NOT_EXIST","message":"no such thing"}`)
	}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		var q struct {
			Name       string
			RunName    string `json:"run_name"`
			RunID      string `json:"run_id"`
			Experiment string `json:"experiment_id"`
			Status     string
			Metrics    []struct {
				Key       string
				Value     any
				Timestamp int64
				Step      int
			}
			Params []struct{ Key, Value string }
		}
		if text, _ := io.ReadAll(r.Body); len(text) > 0 {
			if err := json.Unmarshal(text, &q); err != nil {
				t.Error(err)
			}
		}
		s.auth = r.Header.Get("Authorization")
		reply := "{}"
		switch endpoint := strings.TrimPrefix(r.URL.Path, "/base/api/2.0/mlflow/"); {
		case s.down:
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		case endpoint == "experiments/get-by-name" && s.runs == 0:
			missing(w)
			return
		case endpoint == "experiments/get-by-name":
			reply = `{"experiment":{"experiment_id":"7"}}`
		case endpoint == "experiments/create" && q.Name == "demo":
			reply = `{"experiment_id":"7"}`
		case endpoint == "runs/create" && q.Experiment == "7" && q.RunName == "night":
			s.runs++
			s.deleted = false
			reply = fmt.Sprintf(`{"run":{"info":{"run_id":"run%d"}}}`, s.runs)
		case s.deleted || q.RunID != fmt.Sprintf("run%d", s.runs):
			missing(w)
			return
		case endpoint == "runs/update":
			s.status = append(s.status, q.Status)
		case endpoint == "runs/log-batch":
			s.largest = max(s.largest, len(q.Metrics))
			for _, m := range q.Metrics {
				s.metrics = append(s.metrics, fmt.Sprintf("%s %d %v %d", m.Key, m.Step, m.Value, m.Timestamp-1790000000250))
			}
			for _, p := range q.Params {
				s.params[p.Key] = p.Value
			}
		default:
			t.Errorf("unexpected request %s %+v", r.URL, q)
		}
		_, _ = io.WriteString(w, reply)
	}))
	t.Cleanup(s.Close)
	return s
}

// set changes the server's behaviour.
func (s *mlflowServer) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func TestMLflow(t *testing.T) {
	server := newMLflowServer(t)
	r, file := testRun(t, map[string]string{"MLFLOW_TRACKING_URI": server.URL + "/base/", "MLFLOW_TRACKING_TOKEN": "secret"})
	interrupted(t, r, file, "mlflow")
	lines := testLines()
	want := []string{
		"read/loss 10 2.5 0", "read/step 10 10 0",
		"sft/perf/rss_bytes 1 100 1000", "sft/step 1 1 1000", "sft/train/loss 1 1.5 1000",
		"sft/perf/rss_bytes 2 101 2000", "sft/step 2 2 2000", "sft/train/loss 2 1.25 2000",
		"perf/rss_bytes 0 102 3000", "val/maze/success_rate 0 0.25 3000",
		"critic/score/mean 1 99 4000", "lost 1 1 4000", "training/global_step 1 1 4000", // before the kill
		"critic/score/mean 1 0.5 4000", "perf/rss_bytes 1 103 4000", "training/global_step 1 1 4000",
		"critic/score/mean 2 0.75 5000", "perf/rss_bytes 2 104 5000", "training/global_step 2 2 5000", "val/maze/reward/mean_1 2 -1e-07 5000",
	}
	if d := cmp.Diff(want, server.metrics); d != "" {
		t.Errorf("metrics (-want +got):\n%s", d)
	}
	if server.params["trainer.seed"] != "3" || server.params["env.maze.tasks"] != "0-3" || server.params["actor.stages"] != "[1:2 9:4]" {
		t.Errorf("settings %v", server.params)
	}
	if got := strings.Join(server.status, " "); server.runs != 1 || got != "KILLED RUNNING FINISHED" || server.auth != "Bearer secret" {
		t.Errorf("%d runs, status %s, authorization %q", server.runs, got, server.auth)
	}

	server.metrics = nil
	if _, err := Export(t.Context(), r, "mlflow"); err != nil || server.metrics != nil {
		t.Errorf("an export of the finished run sent %v (error %v), want nothing", server.metrics, err)
	}

	// The server shows how the run ended, also without a new line.
	for end, want := range map[End]string{Interrupted: "KILLED", Failed: "FAILED", Finished: "FINISHED", Running: ""} {
		server.status = nil
		r.Ended = func() End { return end }
		if _, err := Export(t.Context(), r, "mlflow"); err != nil || strings.Join(server.status, " ") != want {
			t.Errorf("end %d: status %v (error %v), want %q", end, server.status, err, want)
		}
	}
	server.status = nil
	r.Ended = func() End { return Interrupted }
	closeSink(t, with(t, open(t, r.Metrics), r, "mlflow"))
	if got := strings.Join(server.status, " "); got != "RUNNING KILLED" && got != "KILLED" {
		t.Errorf("a resumed run that writes no line has the status %s", got)
	}

	// A run that was deleted on the server is made again with every line.
	server.deleted = true
	file = open(t, r.Metrics)
	many := Metrics{"x": math.NaN()}
	for i := range 2500 {
		many[fmt.Sprintf("m%d", i)] = 1
	}
	writeLines(t, file, Line{PhaseTrain, 3, lines[5].Time, many})
	if n, err := Export(t.Context(), r, "mlflow"); err != nil || n != 7 {
		t.Fatalf("%d lines, error %v", n, err)
	}
	if server.runs != 2 || len(server.metrics) != 17+2501 || server.largest != maxMetrics || !strings.HasPrefix(server.metrics[len(server.metrics)-1], "x 3 NaN") {
		t.Errorf("%d runs, %d metrics, at most %d in a request", server.runs, len(server.metrics), server.largest)
	}
}

// TestMLflowDown checks that a server that is down does not disturb a run, and that an export sends the rest.
func TestMLflowDown(t *testing.T) {
	server := newMLflowServer(t)
	server.down = true
	r, file := testRun(t, map[string]string{"MLFLOW_TRACKING_URI": server.URL + "/base", "MLFLOW_TRACKING_USERNAME": "me", "MLFLOW_TRACKING_PASSWORD": "p"})
	var logged strings.Builder
	r.Log = slog.New(slog.NewTextHandler(&logged, nil))
	s := with(t, file, r, "mlflow")
	writeLines(t, s, testLines()...)
	closeSink(t, s)
	if n := strings.Count(logged.String(), "level=WARN"); n == 0 || n > 2 || !strings.Contains(logged.String(), "openmanus export") {
		t.Errorf("the log has %d warnings, want one about the server and one about the export:\n%s", n, &logged)
	}
	if _, err := Export(t.Context(), r, "mlflow"); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("Export to a server that is down: %v", err)
	}

	// The server answers again while the sink waits.
	file = open(t, r.Metrics)
	s = with(t, file, r, "mlflow")
	time.AfterFunc(100*time.Millisecond, func() { server.set(func() { server.down = false }) })
	for sent := 0; sent == 0; time.Sleep(20 * time.Millisecond) {
		server.set(func() { sent = len(server.metrics) })
	}
	closeSink(t, s)
	if server.auth != "Basic bWU6cA==" || len(server.metrics) != 17 {
		t.Errorf("authorization %q, %d metrics, want 17", server.auth, len(server.metrics))
	}
}

// TestMLflowHangs checks that writing does not wait for a server that does not answer.
func TestMLflowHangs(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	r, file := testRun(t, map[string]string{"MLFLOW_TRACKING_URI": server.URL})
	ctx, cancel := context.WithCancel(t.Context())
	s, err := With(ctx, file, r, []string{"mlflow"})
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		writeLines(t, s, testLines()[0])
	}
	cancel()
	closeSink(t, s)
}

func TestMLflowAddress(t *testing.T) {
	for _, uri := range []string{"", "mlruns", "file:///mlruns", "sqlite:///x.db", "http://"} {
		r, file := testRun(t, map[string]string{"MLFLOW_TRACKING_URI": uri})
		if _, err := With(t.Context(), file, r, []string{"mlflow"}); err == nil || !strings.Contains(err.Error(), "MLFLOW_TRACKING_URI") {
			t.Errorf("the address %q: error %v", uri, err)
		}
	}
}

// readMLflow prints the runs of the experiment demo.
const readMLflow = `
import json, sys
from mlflow import MlflowClient
c = MlflowClient(sys.argv[1])
out = []
for r in c.search_runs([c.get_experiment_by_name("demo").experiment_id]):
    history = {k: [[m.step, m.timestamp, m.value] for m in c.get_metric_history(r.info.run_id, k)] for k in r.data.metrics}
    out.append({"name": r.info.run_name, "status": r.info.status, "params": r.data.params, "metrics": history, "latest": r.data.metrics})
print(json.dumps(out))
`

// TestMLflowServer sends a resumed run to MLflow's server and reads it with MLflow's client.
func TestMLflowServer(t *testing.T) {
	python := readertest.Python(t)
	if testing.Short() {
		t.Skip("the server takes about ten seconds to start")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(address)
	dir := t.TempDir()
	cmd := exec.Command(python, "-m", "mlflow", "server", "--backend-store-uri", "sqlite:///"+filepath.Join(dir, "db"), "--default-artifact-root", dir,
		"--host", "127.0.0.1", "--port", port, "--workers", "1")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "MLFLOW_DISABLE_TELEMETRY=true", "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	}()
	client := &http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		resp, err := client.Get("http://" + address + "/health")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				break
			}
		}
		if time.Since(began) > 2*time.Minute {
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("the server does not start: %v\n%s", err, text)
		}
	}

	r, file := testRun(t, map[string]string{"MLFLOW_TRACKING_URI": "http://" + address})
	interrupted(t, r, file, "mlflow")
	file = open(t, r.Metrics)
	writeLines(t, file, Line{PhaseTrain, 3, testLines()[5].Time.Add(time.Second), Metrics{"critic/score/mean": math.NaN(), "perf/rss_bytes": 105}})
	if _, err := Export(t.Context(), r, "mlflow"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("MLFLOW_DISABLE_TELEMETRY", "true")
	var got []struct {
		Name, Status string
		Params       map[string]string
		Metrics      map[string][][3]float64
		Latest       map[string]float64
	}
	text := strings.ReplaceAll(readertest.Run(t, readMLflow, "http://"+address), "NaN", "null")
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Name != "night" || got[0].Status != "FINISHED" {
		t.Fatalf("runs %+v, want one with the name night that is finished", got)
	}
	if d := cmp.Diff(map[string]string{
		"trainer.project": "demo", "trainer.seed": "3", "actor.shuffle": "true", "actor.stages": "[1:2 9:4]", "env.maze.name": "maze", "env.maze.tasks": "0-3",
	}, got[0].Params); d != "" {
		t.Errorf("settings (-want +got):\n%s", d)
	}
	at := func(s float64) float64 { return 1790000000250 + 1000*s }
	for name, want := range map[string][][3]float64{
		"read/loss":          {{10, at(0), 2.5}},
		"sft/train/loss":     {{1, at(1), 1.5}, {2, at(2), 1.25}},
		"sft/perf/rss_bytes": {{1, at(1), 100}, {2, at(2), 101}},
		"perf/rss_bytes":     {{0, at(3), 102}, {1, at(4), 103}, {2, at(5), 104}, {3, at(6), 105}},
		// The value 99 is of the step that the killed process had sent: MLflow keeps it.
		"critic/score/mean":      {{1, at(4), 99}, {1, at(4), 0.5}, {2, at(5), 0.75}, {3, at(6), 0}},
		"val/maze/reward/mean_1": {{2, at(5), -1e-7}},
	} {
		byValue := cmpopts.SortSlices(func(a, b [3]float64) bool { return a[1] < b[1] || a[1] == b[1] && a[2] < b[2] })
		if d := cmp.Diff(want, got[0].Metrics[name], byValue); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}
