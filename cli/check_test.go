package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/env/check"
	"github.com/openmanus/openmanus/internal/errext"
)

// TestEnvCheck checks the output and the exit code for a correct server, a server with a defect and an unreachable
// server.
func TestEnvCheck(t *testing.T) {
	t.Parallel() // each check watches an idle connection for seconds
	h, err := builtin.New("maze", builtin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	good := httptest.NewServer(h)
	defer good.Close()
	bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/step") {
			w.WriteHeader(500)
			return
		}
		h.ServeHTTP(w, r)
	}))
	defer bad.Close()
	gone := httptest.NewServer(h)
	gone.Close()

	code, stdout, stderr := inProcess(t, t.TempDir(), "env", "check", good.URL, "--env", "maze", "--steps", "5")
	if code != 0 || stderr != "" {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	mustContain(t, "stdout", stdout, "RESULT  CHECK", "PASS    two sessions", "AgentGym protocol 11.6", " 0 failed")

	code, stdout, stderr = inProcess(t, t.TempDir(), "env", "check", bad.URL, "--env", "maze", "--json")
	var report check.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != int(errext.Check) || report.Count(check.Fail) == 0 {
		t.Errorf("exit code %d, %v: %s", code, err, stdout)
	}
	mustContain(t, "stderr", stderr, "checks failed")

	code, stdout, stderr = inProcess(t, t.TempDir(), "env", "check", gone.URL, "--env", "maze")
	if code != int(errext.Env) {
		t.Errorf("exit code %d", code)
	}
	mustContain(t, "stdout", stdout, "FAIL    greeting", "SKIP    create")
	mustContain(t, "stderr", stderr, "no server responds")
}

// TestEnvCheckLimit checks that only with --limit the command requests more instances than the server has.
func TestEnvCheckLimit(t *testing.T) {
	t.Parallel() // each check watches an idle connection for seconds
	var made atomic.Int64
	sqlgym := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/create":
			fmt.Fprint(w, made.Add(1)%8)
		case "/close":
			http.NotFound(w, r)
		case "/reset":
			fmt.Fprint(w, `["a contains tables such as b.\n\nWhat?", null]`)
		default:
			fmt.Fprint(w, `{"state":"[]","reward":0.0,"done":true,"info":{"ground_truth":"SELECT 1"}}`)
		}
	}))
	defer sqlgym.Close()
	for want, args := range map[check.Status][]string{check.Skip: nil, check.Warn: {"--limit"}} {
		made.Store(0)
		_, stdout, _ := inProcess(t, t.TempDir(), append([]string{"env", "check", sqlgym.URL, "--env", "sqlgym", "--steps", "1", "--json"}, args...)...)
		var report check.Report
		if err := json.Unmarshal([]byte(stdout), &report); err != nil {
			t.Fatal(err)
		}
		if most := int64(8); want == check.Skip && made.Load() > most {
			t.Errorf("%d instances of %d", made.Load(), most)
		}
		i := slices.IndexFunc(report.Results, func(r check.Result) bool { return r.Check == "instance limit" })
		if i < 0 || report.Results[i].Status != want || report.Left == 0 {
			t.Errorf("%v: want status %s and remaining instances: %.2000s", args, want, stdout)
		}
	}
}

// TestEnvProxy checks that the proxy forwards requests, and that it injects, logs and counts faults.
func TestEnvProxy(t *testing.T) {
	h, err := builtin.New("maze", builtin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	up := httptest.NewServer(h)
	defer up.Close()
	dir := t.TempDir()
	url, later, interrupt := startCommand(t, dir, "env", "proxy", "--upstream", up.URL, "--port", "0", "--fault", "503:1", "--log", "faults.jsonl")
	if got := post(t, url+"/maze/create", ""); got != "Service Unavailable" {
		t.Errorf("reply to create: %q", got)
	}
	if code := interrupt(); code != 0 {
		t.Errorf("exit code %d after Ctrl-C", code)
	}
	if got := <-later; got != "1 requests; injected: 503 1\n" {
		t.Errorf("the last line is %q", got)
	}
	b, err := os.ReadFile(filepath.Join(dir, "faults.jsonl"))
	if err != nil || !strings.Contains(string(b), `"kind":"503","method":"POST","path":"/maze/create"`) {
		t.Errorf("log: %s (%v)", b, err)
	}
}

// TestWordleRun checks that a run trains on the built-in wordle with a custom word list, including a warm start.
func TestWordleRun(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "words.txt", "panic solar\nshire\n")
	writeFile(t, dir, "run.toml", strings.NewReplacer(
		`"maze"`, "\"wordle\"\nvocabulary = \"words.txt\"", "walks = 8", "walks = 0", "walk_turns = 3\n", "",
	).Replace(tinyRun))
	code, stdout, stderr := inProcess(t, dir, append([]string{"train", "run.toml"}, shortRun...)...)
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	mustContain(t, "stdout", stdout, "2 steps", "wordle")
	episodes := one(t, dir, "runs/tiny/rollouts/val_after_wordle.jsonl")
	mustContain(t, "episodes", episodes, "panic\\nsolar\\nshire")
	if strings.Contains(episodes, "trove") {
		t.Error("the default words were played")
	}
}

// startServer replaces the address in a documented `env check` by the address of a running server.
func startServer(t *testing.T, r *docRun, _ string) {
	if r.first() == "" {
		r.args = append([]string{"http://127.0.0.1:36001"}, r.args...)
	}
	r.need("--env", "maze")
	name := r.value("--env")
	if name == env.KindAgentGym { // textcraft has the protocol of servers of one's own
		name = "textcraft"
	}
	h, err := builtin.New(name, builtin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	r.args[0] = server.URL
}

// checkProxy starts a documented proxy on a free port in front of a test server and requests its counts.
func checkProxy(t *testing.T, args []string) {
	t.Helper()
	up := httptest.NewServer(http.NotFoundHandler())
	defer up.Close()
	dir := t.TempDir()
	url, _, interrupt := startCommand(t, dir, append(append([]string{"env", "proxy"}, args...), "--upstream", up.URL, "--port", "0")...)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	reply, err := client.Get(url + "/__faults")
	if err != nil {
		t.Fatal(err)
	}
	_ = reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		t.Errorf("request for the counts: status %d", reply.StatusCode)
	}
	if code := interrupt(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if log := (&docRun{args: args}).value("--log"); log != "" {
		if _, err := os.Stat(filepath.Join(dir, log)); err != nil {
			t.Error(err)
		}
	}
}
