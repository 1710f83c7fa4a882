package cli

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/openmanus/openmanus/agent/openai/openaitest"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/internal/errext"
)

// failsFirst is an endpoint that fails all attempts of the first episode.
func failsFirst(t *testing.T) *openaitest.Server {
	return openaitest.Serve(t, func(n int, r openaitest.Request) openaitest.Answer {
		if n >= 1 && n <= 3 { // request 0 checks that the endpoint responds
			return openaitest.Answer{Status: 500, Body: "boom"}
		}
		return walker(n, r)
	})
}

func lossyRollout(s *openaitest.Server, more ...string) []string {
	return append([]string{"rollout", "--base-url", s.URL, "--api-model", "m", "--api-retries", "0", "--env", "maze", "--tasks", "14-18",
		"--max-turns", "2", "--concurrency", "1", "--dump", "d.jsonl"}, more...)
}

// tallied returns the first line of the output text. This line has the counts of outcomes. The second line describes the servers.
func tallied(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// TestRetryLost checks that the command counts the episodes lost to the infrastructure, fails if their share exceeds
// --max-lost, and with --retry-lost plays only the lost episodes again.
func TestRetryLost(t *testing.T) {
	s, dir := failsFirst(t), t.TempDir()
	path := filepath.Join(dir, "d.jsonl")
	content := func() string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	code, out, stderr := inProcess(t, dir, lossyRollout(s, "--max-lost", "0.2")...)
	if code != 0 || !strings.HasPrefix(tallied(out), "d.jsonl: 5 of 5 episodes, 1 lost: engine_error 1, ") {
		t.Fatalf("exit code %d\n%s%s", code, out, stderr)
	}
	first := content()
	for _, c := range []struct {
		more string
		code errext.ExitCode
		want string
	}{
		{"--continue --max-lost 0.2", errext.OK, "--retry-lost plays them again"},
		{"--continue", errext.Env, "1 of 5 episodes were lost"},
		{"--retry-lost", errext.Usage, "--retry-lost: "},
		{"--continue --max-lost 1", errext.Usage, "--max-lost: 1 is not allowed"},
	} {
		code, out, stderr := inProcess(t, dir, lossyRollout(s, strings.Fields(c.more)...)...)
		if code != int(c.code) || !strings.Contains(stderr, c.want) || (code == int(errext.Usage)) != (out == "") || content() != first {
			t.Errorf("%s: exit code %d, want %d\n%s%s", c.more, code, c.code, out, stderr)
		}
	}
	code, out, stderr = inProcess(t, dir, lossyRollout(s, "--continue", "--retry-lost")...)
	if code != 0 || !strings.HasPrefix(tallied(out), "d.jsonl: 5 of 5 episodes, 0 lost: ") {
		t.Fatalf("exit code %d\n%s%s", code, out, stderr)
	}
	lines := strings.SplitAfter(first, "\n")
	now := content()
	kept := 0
	for _, line := range lines[:len(lines)-1] {
		if !strings.Contains(line, `"outcome":"engine_error"`) {
			kept++
			if !strings.Contains(now, line) {
				t.Errorf("a line is missing: %.200s", line)
			}
		}
	}
	if got := readDump(t, path); kept != 5 || len(got) != 5 {
		t.Errorf("%d lines were kept and the dump has %d episodes, want 5 and 5", kept, len(got))
	}
}

// TestMaxLost checks that a rollout ends when it exceeds --max-lost, and can be continued.
func TestMaxLost(t *testing.T) {
	s, dir := failsFirst(t), t.TempDir()
	code, out, stderr := inProcess(t, dir, lossyRollout(s)...)
	if code != int(errext.Env) || !strings.Contains(stderr, "1 of 5 episodes failed") || !strings.Contains(stderr, "--continue --retry-lost") ||
		tallied(out) != "d.jsonl: 1 of 5 episodes, 1 lost: engine_error 1" {
		t.Errorf("exit code %d\n%s%s", code, out, stderr)
	}
	code, out, stderr = inProcess(t, dir, lossyRollout(s, "--continue", "--retry-lost")...)
	if code != 0 || !strings.HasPrefix(tallied(out), "d.jsonl: 5 of 5 episodes, 0 lost: ") {
		t.Errorf("exit code %d\n%s%s", code, out, stderr)
	}
}

// TestMaxLostCountsAll checks that --max-lost is a share of all episodes, including the episodes already in the dump.
func TestMaxLostCountsAll(t *testing.T) {
	var from atomic.Int64 // number of the first request that fails
	from.Store(math.MaxInt64)
	s := openaitest.Serve(t, func(n int, r openaitest.Request) openaitest.Answer {
		if int64(n) >= from.Load() {
			return openaitest.Answer{Status: 500, Body: "boom"}
		}
		return walker(n, r)
	})
	dir := t.TempDir()
	if code, out, stderr := inProcess(t, dir, lossyRollout(s)...); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out, stderr)
	}
	path := filepath.Join(dir, "d.jsonl")
	dump, err := dump.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dump.Close()
	write(t, path, dump.Header(), readDump(t, path)[:4])
	from.Store(int64(len(s.Requests())) + 1) // fail all requests after the check of the endpoint
	code, out, stderr := inProcess(t, dir, lossyRollout(s, "--continue", "--max-lost", "0.2")...)
	if code != 0 || !strings.HasPrefix(tallied(out), "d.jsonl: 5 of 5 episodes, 1 lost: engine_error 1, ") {
		t.Errorf("exit code %d\n%s%s", code, out, stderr)
	}
}

// TestContinueWithOtherTasks checks that a dump cannot be continued with a changed task file.
func TestContinueWithOtherTasks(t *testing.T) {
	s, dir := openaitest.Serve(t, walker), t.TempDir()
	row := func(id string) string { return `{"item_id":"` + id + `","conversations":[]}` + "\n" }
	args := []string{"rollout", "--base-url", s.URL, "--api-model", "m", "--env", "maze", "--tasks", "rows.jsonl", "--max-turns", "2", "--dump", "d.jsonl", "--continue"}
	writeFile(t, dir, "rows.jsonl", row("maze_17")+row("maze_18"))
	if code, out, stderr := inProcess(t, dir, args...); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out, stderr)
	}
	writeFile(t, dir, "rows.jsonl", row("maze_17")+row("maze_16"))
	code, _, stderr := inProcess(t, dir, args...)
	if code != int(errext.Input) || !strings.Contains(stderr, "(2 tasks, maze_17 to maze_18)") || !strings.Contains(stderr, "(2 tasks, maze_17 to maze_16)") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}

	// A dump of an earlier version can be continued.
	path := filepath.Join(dir, "d.jsonl")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	header, rest, _ := strings.Cut(string(text), "\n")
	var h map[string]any
	if err := json.Unmarshal([]byte(header), &h); err != nil {
		t.Fatal(err)
	}
	delete(h["options"].(map[string]any), dump.TasksOption)
	old, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, "d.jsonl", string(old)+"\n"+rest)
	writeFile(t, dir, "rows.jsonl", row("maze_17")+row("maze_18"))
	if code, out, stderr := inProcess(t, dir, args...); code != 0 || !strings.HasPrefix(tallied(out), "d.jsonl: 2 of 2 episodes") {
		t.Errorf("exit code %d\n%s%s", code, out, stderr)
	}
}
