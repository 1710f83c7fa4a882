package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/algo/rundir/checkpoint"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/dump"
)

// TestReportPages writes the page of two runs and checks its links into the page of their episodes.
func TestReportPages(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		copyRun(t, filepath.Join(dir, "runs", name))
		for _, file := range []string{"step_1.jsonl", "step_2.jsonl", "val_after_maze.jsonl"} {
			var episodes []*data.Episode
			for range 5 {
				episodes = append(episodes, &data.Episode{Task: data.Task{ID: "maze_17", Env: "maze"}, Outcome: data.Success, Tokens: []int32{1, 2}, Mask: []uint8{0, 1}, LogProbs: []float32{0, -1}})
			}
			path := filepath.Join(dir, "runs", name, "rollouts", file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := dump.WriteFile(path, dump.Header{}, episodes); err != nil {
				t.Fatal(err)
			}
		}
	}
	args := []string{"report", "runs/a", "b", "--html", "r.html", "--episodes", "12"}
	if code, stdout, stderr := inProcess(t, dir, args...); code != 0 || stdout != "r.html\n" {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	page, episodes := one(t, dir, "r.html"), one(t, dir, "r-episodes.html")
	links := regexp.MustCompile(`href="r-episodes.html#(e\d+)">([^<]*)</a> <span class="dim">([^<]*)`).FindAllStringSubmatch(page, -1)
	if len(links) != 6 {
		t.Fatalf("%d links to episodes, want the last two steps and the validation of both runs", len(links))
	}
	for i, label := range []string{"a: val_after_maze", "a: step 2", "a: step 1", "b: val_after_maze", "b: step 2", "b: step 1"} {
		if !strings.Contains(episodes, `<article id="`+links[i][1]+`"`) || links[i][2] != label || links[i][3] != "2 shown, 2 solved" {
			t.Errorf("link %d: %q, want %q with 2 solved episodes", i, links[i], label)
		}
	}
	if code, _, stderr := inProcess(t, dir, args...); code != 2 || !strings.Contains(stderr, "--force") {
		t.Errorf("a second report: exit code %d, want 2: %s", code, stderr)
	}
	if code, _, stderr := inProcess(t, dir, append(args, "--force")...); code != 0 {
		t.Errorf("with --force: exit code %d: %s", code, stderr)
	}
}

// TestReportErrors checks the exit codes of wrong command lines.
func TestReportErrors(t *testing.T) {
	dir := t.TempDir()
	copyRun(t, filepath.Join(dir, "runs", "a"))
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"report"}, 2, "RUN"},
		{[]string{"report", "missing"}, 3, "lists the runs: a"},
		{[]string{"report", "."}, 3, "not a run folder"},
		{[]string{"runs", "compare", "a", "runs/b"}, 3, "no run runs/b"},
		{[]string{"export", "runs/b", "--to", "csv"}, 3, "lists the runs: a"},
		{[]string{"view", "runs/b"}, 3, "lists the runs: a"},
		{[]string{"view", "a"}, 3, "rollouts"}, // the run a, without episodes
		{[]string{"report", "a", "--force"}, 2, "--html"},
		{[]string{"report", "a", "--html", "x.html", "--episodes", "-1"}, 2, "--episodes"},
		{[]string{"runs", "missing"}, 3, "missing"},
		{[]string{"runs", "."}, 3, "no runs"},
		{[]string{"runs", "compare", "a"}, 2, "RUN RUN"},
	} {
		if code, _, stderr := inProcess(t, dir, c.args...); code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit code %d and %q, want %d and %q", c.args, code, stderr, c.code, c.want)
		}
	}
}

// TestRunsJSON lists a finished run and a run whose lock is held.
func TestRunsJSON(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		copyRun(t, filepath.Join(dir, "runs", name))
	}
	writeFile(t, dir, "runs/note.txt", "not a run")
	lock, err := checkpoint.AcquireLock(filepath.Join(dir, "runs", "b"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Release() }()
	code, stdout, stderr := inProcess(t, dir, "runs", "--json")
	var got struct {
		Runs []struct {
			Name, State string
			Step, Steps int
			Bytes       int64
		}
	}
	if err := json.Unmarshal([]byte(stdout), &got); code != 0 || err != nil || len(got.Runs) != 2 {
		t.Fatalf("exit code %d, %v: %s%s", code, err, stdout, stderr)
	}
	states := map[string]string{}
	for _, r := range got.Runs {
		states[r.Name] = r.State
		if r.Step != 2 || r.Steps != 2 || r.Bytes < 10_000 {
			t.Errorf("run %+v, want step 2 of 2 and its size", r)
		}
	}
	if states["a"] != "finished" || states["b"] != "running" {
		t.Errorf("states %v, want a finished and b running", states)
	}
	code, stdout, _ = inProcess(t, dir, "report", "a", "--json")
	if code != 0 || !json.Valid([]byte(stdout)) || !strings.Contains(stdout, `"metric":"episode/success_rate"`) {
		t.Errorf("exit code %d: %.300s", code, stdout)
	}
	code, stdout, _ = inProcess(t, dir, "runs", "compare", "a", "b", "--json")
	if code != 0 || !json.Valid([]byte(stdout)) || !strings.Contains(stdout, `"differences":[]`) {
		t.Errorf("exit code %d: %.300s", code, stdout)
	}
}
