package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/hub/hubtest"
	"github.com/openmanus/openmanus/internal/errext"
)

// TestHubModel checks that a model opens by its name on the Hugging Face Hub. The
// model is in the local cache, whose snapshots consist of links.
func TestHubModel(t *testing.T) {
	dir, tiny := t.TempDir(), tinyModel(t)
	repository := filepath.Join(dir, ".cache/huggingface/hub/models--acme--tiny")
	snapshot := filepath.Join(repository, "snapshots/abc123")
	for _, folder := range []string{snapshot, filepath.Join(repository, "refs")} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, repository, "refs/main", "abc123")
	files, err := os.ReadDir(tiny)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.Symlink(filepath.Join(tiny, f.Name()), filepath.Join(snapshot, f.Name())); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{"HOME": dir, "HF_HUB_OFFLINE": "1"}
	if code, stdout, stderr := inEnvironment(t, dir, env, "model", "info", "acme/tiny"); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	code, _, stderr := inEnvironment(t, dir, env, "train", "--preset", "grpo", "--env", "maze", "--set", "model.path=acme/gone", "--set", "env.maze.tasks=0-9")
	if code != int(errext.Model) {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	mustContain(t, "stderr", stderr, "model.path: ", "openmanus model fetch acme/gone --to DIR", ".cache/huggingface/hub")
}

// inEnvironment is inProcess with environment variables.
func inEnvironment(t *testing.T, dir string, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ts := newTestState(t, args...)
	ts.Dir, ts.Getenv = dir, func(key string) string { return env[key] }
	code = Main(ts.State)
	return code, ts.out.String(), ts.err.String()
}

// TestModelFetch fetches a model, into the cache and into a folder, and uses its name for a command.
func TestModelFetch(t *testing.T) {
	s := hubtest.New(t)
	commit := s.AddFolder(t, "acme/tiny", tinyModel(t))
	dir := t.TempDir()
	env := s.Environment("hub")
	code, stdout, stderr := inEnvironment(t, dir, env, "config", "check", "--preset", "grpo", "--env", "maze",
		"--set", "model.path=acme/tiny", "--set", "env.maze.tasks=0-9", "--set", "env.maze.val_tasks=0-9")
	if code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	mustContain(t, "stdout", stdout, "model.path: ", "openmanus model fetch acme/tiny")
	if len(s.Requests()) > 0 {
		t.Error("config check sent a request")
	}
	code, stdout, stderr = inEnvironment(t, dir, env, "model", "fetch", "acme/tiny", "--revision", "main", "--json")
	var got fetchedModel
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	if got.Commit != commit || got.Downloaded == 0 || got.Downloaded != got.Bytes || got.Model != "acme/tiny" {
		t.Errorf("got %+v", got)
	}
	code, stdout, stderr = inEnvironment(t, dir, env, "model", "fetch", "acme/tiny", "--to", "copy")
	if code != 0 || stdout != filepath.Join(dir, "copy")+"\n" {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	before := len(s.Requests())
	for _, name := range []string{"acme/tiny", "acme/tiny@" + commit, "copy"} {
		if code, stdout, stderr := inEnvironment(t, dir, env, "model", "info", name); code != 0 {
			t.Errorf("%s: exit code %d\n%s%s", name, code, stdout, stderr)
		}
	}
	if len(s.Requests()) != before {
		t.Error("a fetched model is requested again")
	}
	for _, c := range []struct {
		args  []string
		code  errext.ExitCode
		words string
	}{
		{[]string{"acme/gone"}, errext.Model, "HF_TOKEN"},
		{[]string{"gone"}, errext.Usage, "ORG/NAME"},
		{[]string{"acme/tiny@main", "--revision", "v1"}, errext.Usage, "--revision"},
		{[]string{"acme/tiny", "--revision", "v 1"}, errext.Usage, "--revision"},
		{[]string{"acme/tiny", "--revision", "v1"}, errext.Model, "v1"},
		{[]string{"acme/tiny", "--include", "["}, errext.Usage, "--include"},
		{[]string{"acme/tiny", "--include", "*.gguf"}, errext.Model, "*.gguf"},
		{[]string{"acme/tiny", "--to", "copy"}, errext.Usage, "copy"},
	} {
		code, _, stderr := inEnvironment(t, dir, env, append([]string{"model", "fetch"}, c.args...)...)
		if code != int(c.code) || !strings.Contains(stderr, c.words) {
			t.Errorf("%v: exit code %d\n%s", c.args, code, stderr)
		}
	}
}
