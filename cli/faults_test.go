package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/internal/errext"
)

// shortRun is tinyRun with fewer steps.
var shortRun = []string{"--set", "trainer.total_steps=2", "--set", "sft.epochs=4", "--set", "trainer.save_every=1", "--quiet"}

// TestDiskFull checks that a run ends with an error if the disk is full, and that the same command resumes when there is
// space. A limit on file sizes replaces the full disk.
func TestDiskFull(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this test needs ulimit -f")
	}
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	args := append([]string{"train", "run.toml"}, shortRun...)
	// 80 blocks of 512 bytes (1024 bytes in bash) are enough for the configuration and the metrics, not for the weights.
	full := exec.Command("sh", append([]string{"-c", `ulimit -f 80; exec openmanus "$@"`, "sh"}, args...)...)
	full.Dir = dir
	out, err := full.CombinedOutput()
	if code := full.ProcessState.ExitCode(); code != int(errext.Disk) || !strings.Contains(string(out), "file too large") || !strings.Contains(string(out), "make room") {
		t.Fatalf("exit code %d (%v):\n%s", code, err, out)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "runs", "tiny", "checkpoints", "*")); err != nil || len(left) > 0 {
		t.Errorf("remains of a checkpoint: %v %v", left, err)
	}
	again := exec.Command("openmanus", args...)
	again.Dir = dir
	if out, err := again.CombinedOutput(); err != nil {
		t.Fatalf("after the limit was removed: %v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "runs", "tiny", "checkpoints", "step_000002", "manifest.json")); err != nil {
		t.Error(err)
	}
}

// TestOtherTasks checks that resuming with a changed task file is an input error.
func TestOtherTasks(t *testing.T) {
	row := func(i int) string { return fmt.Sprintf(`{"item_id":"maze_%d","conversations":[]}`+"\n", i) }
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	writeFile(t, dir, "rows.jsonl", row(17)+row(18))
	train := func(steps string) (*testState, int) {
		ts := newTestState(t, "train", "run.toml", "--quiet", "--set", "env.maze.tasks=[\"rows.jsonl\"]", "--set", "trainer.total_steps="+steps,
			"--set", "sft.epochs=0", "--set", "model.fresh.walks=0")
		ts.Dir = dir
		return ts, Main(ts.State)
	}
	if ts, code := train("1"); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, ts.err.String())
	}
	writeFile(t, dir, "rows.jsonl", row(17)+row(18)+row(19))
	ts, code := train("2")
	if code != int(errext.Input) {
		t.Errorf("exit code %d", code)
	}
	mustContain(t, "stderr", ts.err.String(), "changed since the checkpoint", "env.maze.tasks: 2 tasks, sha256:", " -> 3 tasks, sha256:")
}

// TestServerDies checks that a run ends with exit code Env if a server dies during a step, and that the same command
// resumes when the server is restarted.
func TestServerDies(t *testing.T) {
	maze, err := builtin.New("maze", builtin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var dead atomic.Bool
	var resets atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The first twelve resets belong to eight walks, two expert episodes and two validation episodes.
		if strings.HasSuffix(r.URL.Path, "/reset") && resets.Add(1) == 14 {
			dead.Store(true)
		}
		if dead.Load() {
			panic(http.ErrAbortHandler)
		}
		maze.ServeHTTP(w, r)
	}))
	defer server.Close()

	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	args := append([]string{"train", "run.toml", "--set", "env.maze.servers=" + server.URL}, shortRun...)
	ts := newTestState(t, args...)
	ts.Dir, ts.WaitHealthy = dir, 50*time.Millisecond
	if code := Main(ts.State); code != int(errext.Env) {
		t.Fatalf("exit code %d:\n%s", code, ts.err.String())
	}
	for _, want := range []string{"step 1: ", "no server answered for 50ms", server.URL, "servers"} {
		if !strings.Contains(ts.err.String(), want) {
			t.Errorf("stderr lacks %q:\n%s", want, ts.err.String())
		}
	}
	dead.Store(false)
	again := newTestState(t, args...)
	again.Dir = dir
	if code := Main(again.State); code != 0 {
		t.Fatalf("after the server was restarted: exit code %d:\n%s", code, again.err.String())
	}
	if !strings.Contains(again.out.String(), "2 steps") {
		t.Errorf("stdout:\n%s", again.out.String())
	}
}

func writeFile(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestWithoutServer checks that every command reports an unreachable server at once, before it opens a model.
func TestWithoutServer(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	url := gone.URL
	gone.Close()
	for _, args := range [][]string{
		{"eval", "--model", ".", "--env", "maze", "--server", url, "--tasks", "1,2", "--quiet"},
		{"rollout", "--model", ".", "--env", "maze", "--server", url, "--tasks", "1,2", "--quiet", "--dump", "d.jsonl"},
		{"train", "--set", "env.maze.servers=" + url, "--quiet"},
	} {
		ts := newTestState(t, args...) // with the default wait of two minutes, which applies only to servers that fail later
		if code := Main(ts.State); code != int(errext.Env) {
			t.Errorf("%s: exit code %d", args[0], code)
		}
		mustContain(t, "stderr", ts.err.String(), "no server answers", url, "servers")
		if ts.out.String() != "" {
			t.Errorf("%s: stdout %q", args[0], ts.out.String())
		}
	}
}

// TestServerOfAnotherEnvironment checks that every command rejects a server of another environment before it plays.
func TestServerOfAnotherEnvironment(t *testing.T) {
	var played atomic.Int64
	movie := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			io.WriteString(w, `"ok"`)
		case "/create":
			io.WriteString(w, "0")
		case "/step":
			io.WriteString(w, `{"observation":"Observation: You can use following valid actions: ['get_search_movie', 'finish']","reward":0,"done":false}`)
		default:
			played.Add(1)
			http.NotFound(w, r)
		}
	}))
	defer movie.Close()
	for _, args := range [][]string{
		{"eval", "--model", ".", "--env", "weather", "--server", movie.URL, "--tasks", "1,2", "--quiet"},
		{"rollout", "--model", ".", "--env", "weather", "--server", movie.URL, "--tasks", "1,2", "--quiet", "--dump", "d.jsonl"},
		{"train", "run.toml", "--set", "sft.epochs=0", "--quiet"},
	} {
		ts := newTestState(t, args...)
		writeFile(t, ts.Dir, "run.toml", strings.NewReplacer(
			`name = "maze"`, `name = "weather"`+"\nservers = [\""+movie.URL+"\"]", `expert_tasks = "17,18"`, "", `walks = 8`, "", `walk_turns = 3`, "",
		).Replace(tinyRun))
		if code := Main(ts.State); code != int(errext.Env) {
			t.Errorf("%s: exit code %d", args[0], code)
		}
		mustContain(t, "stderr", ts.err.String(), "environment weather", movie.URL, "movie", "correct the addresses")
	}
	if n := played.Load(); n > 0 {
		t.Errorf("%d requests of episodes", n)
	}
}

// TestPromptTooLong checks that a task that does not fit into the context is an input error, not a failure of the model.
func TestPromptTooLong(t *testing.T) {
	ts := newTestState(t, "eval", "--model", tinyModel(t), "--env", "maze", "--tasks", "1,2", "--max-context-tokens", "20", "--quiet")
	if code := Main(ts.State); code != int(errext.Input) {
		t.Errorf("exit code %d", code)
	}
	mustContain(t, "stderr", ts.err.String(), "first messages of maze_", "max_context_tokens is 20", "raise --max-context-tokens", "--skip-tasks")
	ts = newTestState(t, append([]string{"train", "run.toml", "--set", "data.max_prompt_tokens=20"}, shortRun...)...)
	writeFile(t, ts.Dir, "run.toml", tinyRun)
	if code := Main(ts.State); code != int(errext.Input) {
		t.Errorf("train: exit code %d", code)
	}
	mustContain(t, "stderr", ts.err.String(), "first messages of maze_16", "raise data.max_prompt_tokens")
}
