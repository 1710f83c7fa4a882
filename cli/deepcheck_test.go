package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/hub/hubtest"
	"github.com/openmanus/openmanus/internal/errext"
)

// TestDeepCheck checks what config check --deep opens.
func TestDeepCheck(t *testing.T) {
	scorer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"scores": []any{map[string]any{"score": 0.5}}}) // the client may have gone
	}))
	defer scorer.Close()
	wrong := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"hello": "world"}`)) // the client may have gone
	}))
	defer wrong.Close()
	maze, stop := startServe(t, "maze", "--port", "0")
	defer stop()
	tiny, bare := tinyModel(t), tinyModel(t)
	file := filepath.Join(bare, "tokenizer_config.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), "chat_template", "other", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	hub := hubtest.New(t)
	hub.AddFolder(t, "acme/tiny", tiny)

	for title, c := range map[string]struct {
		sets  []string
		code  errext.ExitCode
		words []string // lines of the table, as regular expressions would match blanks: each word in order
	}{
		"built-in server": {
			[]string{"model.path=" + tiny, "reward.score_fn=" + scorer.URL},
			errext.OK, []string{"run.toml: ok", "ok    model.path", "llama", "chat template", "ok    env.maze.val_tasks", "1 tasks", "ok    env.maze.tasks", "2 tasks", "ok    env.maze.servers", "built-in server", "task maze_16 started", "ok    reward.score_fn http", "0.5"},
		},
		"a running server": {[]string{"model.path=" + tiny, "env.maze.servers=" + maze}, errext.OK, []string{"ok    env.maze.servers", maze, "closed"}},
		"a component":      {[]string{"model.path=" + tiny, "reward.components.goal.weight=2"}, errext.OK, []string{"ok    reward.components.goal"}},
		"a new model":      {[]string{"model.fresh.layers=1"}, errext.OK, []string{"skip  model.path"}},
		"a model to fetch": {[]string{"model.path=acme/tiny"}, errext.OK, []string{"skip  model.path", "openmanus model fetch acme/tiny"}},
		"no server":        {[]string{"model.path=" + tiny, "env.maze.servers=http://127.0.0.1:1"}, errext.Check, []string{"fail  env.maze.servers", "127.0.0.1:1"}},
		"another server":   {[]string{"model.path=" + tiny, "env.maze.servers=" + wrong.URL}, errext.Check, []string{"fail  env.maze.servers"}},
		"no template":      {[]string{"model.path=" + bare}, errext.Check, []string{"fail  model.path", "chat template"}},
		"a long context":   {[]string{"model.path=" + tiny, "rollout.max_context_tokens=100000"}, errext.Check, []string{"fail  model.path", "4096"}},
		"a damaged model":  {[]string{"model.path=" + filepath.Dir(file) + "/tokenizer_config.json"}, errext.Check, []string{"fail  model.path"}},
		"a scorer fails":   {[]string{"model.path=" + tiny, "reward.score_fn=exec:false"}, errext.Check, []string{"fail  reward.score_fn exec"}},
		"a wrong scorer":   {[]string{"model.path=" + tiny, "reward.score_fn=" + wrong.URL}, errext.Check, []string{"fail  reward.score_fn http"}},
		"no ground truth":  {[]string{"model.path=" + tiny, "reward.score_fn=qa_em"}, errext.Check, []string{"fail  reward.score_fn", "ground truth"}},
	} {
		t.Run(title, func(t *testing.T) {
			dir := t.TempDir()
			writeFile(t, dir, "run.toml", "[[env]]\nname = \"maze\"\ntasks = \"18,17\"\nval_tasks = \"16\"\n[rollout]\nmax_context_tokens = 2048\n[trainer]\ntotal_steps = 1\n")
			args := []string{"config", "check", "run.toml", "--deep"}
			for _, s := range c.sets {
				args = append(args, "--set", s)
			}
			code, stdout, stderr := inEnvironment(t, dir, hub.Environment("hub"), args...)
			if code != int(c.code) {
				t.Fatalf("exit code %d, want %d\n%s%s", code, c.code, stdout, stderr)
			}
			rest := stdout
			for _, w := range c.words {
				_, after, ok := strings.Cut(rest, w)
				if !ok {
					t.Errorf("no %q in the right place of\n%s", w, stdout)
				}
				rest = after
			}
			if _, err := os.Stat(filepath.Join(dir, "runs")); err == nil {
				t.Error("the check made a run folder")
			}
		})
	}
	if len(hub.Requests()) > 0 {
		t.Error("a request was sent to the hub")
	}
}
