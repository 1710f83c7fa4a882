package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/env/listen"
	"github.com/openmanus/openmanus/env/listen/listentest"
	"github.com/openmanus/openmanus/internal/errext"
)

// fakeUvicorn replaces `python -m uvicorn MODULE:app --host H --port P`. It serves
// the built-in environment of the module.
func fakeUvicorn(args []string) {
	name := "maze"
	if strings.Contains(args[0], "textcraft") {
		name = "textcraft"
	}
	host, port := "", ""
	for i, a := range args[:len(args)-1] {
		switch a {
		case "--host":
			host = args[i+1]
		case "--port":
			port = args[i+1]
		}
	}
	h, err := builtin.New(name, builtin.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	server, err := listen.Serve(context.Background(), name, net.JoinHostPort(host, port), reportResets(h, os.Getenv(resetURLKey), port), nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	<-server.Done()
}

// resetURLKey is the environment variable with the URL that fakeUvicorn requests before every reset.
const resetURLKey = "TEST_RESET_URL"

// reportResets requests url?PORT and waits for the reply before h handles a reset.
func reportResets(h http.Handler, url, port string) http.Handler {
	if url == "" {
		return h
	}
	client := http.Client{Timeout: time.Minute}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/reset") {
			reply, err := client.Get(url + "?" + port)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			_ = reply.Body.Close()
		}
		h.ServeHTTP(w, r)
	})
}

// fakeCheckout creates a folder like a checkout of AgentGym, and a script in place of Python that supports the calls for
// installing and starting a server.
func fakeCheckout(t *testing.T, dir, name string) (python string) {
	t.Helper()
	for _, folder := range []string{"agentenv-textcraft", "agentenv-lmrlgym/lmrlgym/LLM_RL", "agentenv-lmrlgym/lmrlgym/llm_rl_scripts"} {
		if err := os.MkdirAll(filepath.Join(dir, name, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := `#!/bin/sh
case "$1 $2" in
"-c import sys"*) echo 3 11 ;;
"-c "*) ;;
"-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
"-m pip") echo "pip: $*" ;;
"-m uvicorn") shift 2; exec ` + errext.ShellQuote(self) + ` fake-uvicorn "$@" ;;
*) echo "no such: $*"; exit 9 ;;
esac
`
	python = filepath.Join(dir, "fakepython")
	if err := os.WriteFile(python, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return python
}

// up runs `env up` until n servers respond. It returns the printed lines and a
// function that interrupts the command and returns the exit code.
func up(t *testing.T, dir string, n int, args ...string) (lines []string, interrupt func() int) {
	t.Helper()
	ts := newTestState(t, append([]string{"env", "up"}, args...)...)
	ts.Dir = dir
	r, w := io.Pipe()
	ts.Stdout = w
	subscribed := make(chan chan<- Signal, 1)
	ts.Notify = func(c chan<- Signal) func() { subscribed <- c; return func() {} }
	code := make(chan int, 1)
	go func() { code <- Main(ts.State); _ = w.Close() }()
	out := bufio.NewScanner(r)
	for range n {
		if !out.Scan() {
			t.Fatalf("the command ended with exit code %d: %s", <-code, ts.err)
		}
		lines = append(lines, out.Text())
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	signals := <-subscribed
	return lines, func() int {
		signals <- syscall.SIGINT
		return <-code
	}
}

func greet(t *testing.T, url string) {
	t.Helper()
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	reply, err := client.Get(url + "/")
	if err != nil {
		t.Fatal(err)
	}
	_ = reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		t.Errorf("%s: status %d", url, reply.StatusCode)
	}
}

func TestEnvInstallAndUp(t *testing.T) {
	dir := t.TempDir()
	fakeCheckout(t, dir, "Agent Gym")
	code, stdout, stderr := inProcess(t, dir, "env", "install", "textcraft", "--checkout", "Agent Gym", "--python", "./fakepython")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	mustContain(t, "stdout", stdout, "Agent Gym/agentenv-textcraft/.venv\n", "Next: openmanus env up textcraft --checkout 'Agent Gym'")
	mustContain(t, "stderr", stderr, "pip: -m pip install fastapi uvicorn gymnasium numpy")

	base := listentest.Ports(t, 2)
	lines, interrupt := up(t, dir, 2, "textcraft", "--checkout", "Agent Gym", "--num-servers", "2", "--base-port", fmt.Sprint(base), "--json")
	for _, line := range lines {
		var s upServer
		if err := json.Unmarshal([]byte(line), &s); err != nil || s.Env != "textcraft" || s.Restarts != 0 {
			t.Fatalf("%s: %v", line, err)
		}
		greet(t, s.URL)
	}
	if code := interrupt(); code != 0 {
		t.Errorf("exit code %d after Ctrl-C", code)
	}
	log, err := os.ReadFile(filepath.Join(dir, "servers", fmt.Sprintf("textcraft_%d.log", base+1)))
	if err != nil || !strings.Contains(string(log), "uvicorn agentenv_textcraft:app") {
		t.Errorf("log: %s %v", log, err)
	}
}

func TestEnvUpErrors(t *testing.T) {
	dir := t.TempDir()
	fakeCheckout(t, dir, "gym")
	tests := []struct {
		name string
		line string
		code errext.ExitCode
		want string
	}{
		{"no name", "up", errext.Usage, "env up needs academia|"},
		{"wrong name", "up textcarft --checkout gym", errext.Usage, "did you mean textcraft?"},
		{"no checkout", "up textcraft", errext.Usage, "--checkout: "},
		{"wrong checkout", "up textcraft --checkout ..", errext.Input, "no folder agentenv-textcraft in"},
		{"all flags", "up textcraft --checkout gym --num-servers 0 --base-port 70000 --start-timeout -1 --venv v --python p --environment X --server-logs=",
			errext.Usage, "--environment: \"X\" is not NAME=VALUE"},
		{"wrong venv", "up textcraft --checkout gym --venv none", errext.Input, "none has no bin/python"},
		{"no such program", "up textcraft --command nothing-such", errext.Env, `no program "nothing-such"`},
		{"server ends", "up textcraft --command false", errext.Env, "it ended with status 1"},
		{"no data", "up sqlgym --checkout gym", errext.Input, "no folder agentenv-sqlgym"},
		{"install without checkout", "install textcraft", errext.Usage, "--checkout: missing"},
		{"install of unsupported packages", "install webshop --checkout gym", errext.Input, "a spaCy model"},
		{"install with a wrong python", "install textcraft --checkout gym --python false", errext.Input, "false does not work"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			args := append([]string{"env"}, strings.Fields(test.line)...)
			code, _, stderr := inProcess(t, dir, args...)
			if code != int(test.code) || !strings.Contains(stderr, test.want) {
				t.Errorf("exit code %d, want %d with %q:\n%s", code, test.code, test.want, stderr)
			}
		})
	}
}

// TestEnvUpBeforeInstall checks that the error names `env install` if Python or its packages are missing.
func TestEnvUpBeforeInstall(t *testing.T) {
	dir := t.TempDir()
	fakeCheckout(t, dir, "Agent Gym")
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	python := "#!/bin/sh\necho \"$0: No module named uvicorn\" >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(dir, "bin", "python3"), []byte(python), 0o755); err != nil {
		t.Fatal(err)
	}
	const want = "run this first: openmanus env install textcraft --checkout 'Agent Gym'"
	path := os.Getenv("PATH")
	for name, search := range map[string]string{"no packages": filepath.Join(dir, "bin") + ":" + path, "no Python": filepath.Join(dir, "Agent Gym")} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", search)
			args := []string{"env", "up", "textcraft", "--checkout", "Agent Gym", "--base-port", fmt.Sprint(listentest.Ports(t, 1))}
			code, _, stderr := inProcess(t, dir, args...)
			if code != int(errext.Env) || !strings.Contains(stderr, want) {
				t.Errorf("exit code %d, want %d and %q:\n%s", code, errext.Env, want, stderr)
			}
		})
	}
	// The error of a failure with another cause does not suggest env install.
	t.Setenv("PATH", path)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	code, _, stderr := inProcess(t, dir, "env", "up", "textcraft", "--checkout", "Agent Gym", "--base-port", fmt.Sprint(taken.Addr().(*net.TCPAddr).Port))
	if code != int(errext.Env) || strings.Contains(stderr, "env install") {
		t.Errorf("with a port in use: exit code %d\n%s", code, stderr)
	}
}

// TestTrainLaunches checks that a run starts servers and stops them at the end.
func TestTrainLaunches(t *testing.T) {
	dir := t.TempDir()
	python := fakeCheckout(t, dir, "gym")
	base := listentest.Ports(t, 2)
	writeFile(t, dir, "run.toml", tinyRun)
	code, _, stderr := inProcess(t, dir, "train", "run.toml",
		"--set", "env.maze.launch=true", "--set", "env.maze.checkout=gym", "--set", "env.maze.python="+python,
		"--set", "env.maze.num_servers=2", "--set", fmt.Sprintf("env.maze.base_port=%d", base), "--set", "trainer.total_steps=1")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	for i := range 2 {
		mustContain(t, "log", one(t, dir, fmt.Sprintf("runs/*/servers/maze_%d.log", base+i)), "uvicorn agentenv_lmrlgym:app", "end ")
		if ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", base+i)); err != nil {
			t.Errorf("server %d still runs: %v", i, err)
		} else {
			_ = ln.Close()
		}
	}
}

// TestWorldFollowsRestarts checks that the pool of an environment uses a server again after its restart.
func TestWorldFollowsRestarts(t *testing.T) {
	dir := t.TempDir()
	python := fakeCheckout(t, dir, "gym")
	ts := newTestState(t)
	ts.Dir = dir
	e := run.Schema.DefaultEnv("maze")
	e.Launch, e.Checkout, e.Python, e.NumServers, e.BasePort = true, "gym", python, 1, listentest.Ports(t, 1)
	w, err := run.OpenWorld(t.Context(), &ts.Host, e, run.WorldOptions{Logs: "servers"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	lease, err := w.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lease.Client().Reset(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(serverPID(t, e.BasePort), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = lease.Client().Step(t.Context(), "move up\n")
	}
	lease.Fail(err)
	again, err := w.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Release()
	if _, err := again.Client().Reset(t.Context(), 3); err != nil {
		t.Error(err)
	}
	// The probe of the pool may find the server before the supervisor reports it.
	for range 6000 {
		if strings.Contains(ts.err.String(), "environment server restarted") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("the log lacks the restart of the server:\n%s", ts.err)
}

// serverPID finds the process that listens on a port by its arguments.
func serverPID(t *testing.T, port int) int {
	t.Helper()
	pids := serverPIDs(t, port)
	if len(pids) == 0 {
		t.Fatal("no such server")
	}
	return pids[0]
}

func serverPIDs(t *testing.T, port int) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Error(err)
	}
	var pids []int
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(b), fmt.Sprintf("fake-uvicorn\x00agentenv_lmrlgym:app\x00--host\x00127.0.0.1\x00--port\x00%d\x00", port)) {
			var pid int
			if _, err := fmt.Sscanf(file, "/proc/%d/cmdline", &pid); err != nil {
				t.Error(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}
