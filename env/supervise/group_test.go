package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/env/listen/listentest"
)

// fake returns options for n servers that run the program role of roles.
func fake(t *testing.T, role string, n int) Options {
	return Options{
		Name:    "fake",
		Command: Command{Args: []string{"/proc/self/exe", role, "{port}"}, Env: os.Environ()},
		Servers: n, BasePort: listentest.Ports(t, n), LogDir: t.TempDir(),
		StartTimeout: time.Minute, Grace: 300 * time.Millisecond, Backoff: 10 * time.Millisecond,
	}
}

func start(t *testing.T, o Options) *Group {
	t.Helper()
	g, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return g
}

func get(url string) (string, error) {
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	reply, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer reply.Body.Close()
	b, err := io.ReadAll(reply.Body)
	return string(b), err
}

func mustGet(t *testing.T, url string) string {
	t.Helper()
	text, err := get(url)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func pidOf(t *testing.T, url, path string) int {
	t.Helper()
	pid, err := strconv.Atoi(mustGet(t, url+path))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	_, state, ok := parentOf(pid)
	return ok && state != 'Z' && state != 'X'
}

// eventually calls holds repeatedly until the result is true. The message of a failure contains the string condition.
func eventually(t *testing.T, condition string, holds func() bool) {
	t.Helper()
	for range 6000 {
		if holds() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("not within a minute: %s", condition)
}

func TestStartAndClose(t *testing.T) {
	o := fake(t, "serve", 3)
	o.Command.Dir = t.TempDir()
	o.Command.Env = append(o.Command.Env, "COLOUR=red", "SHAPE=round")
	o.Command.Set = map[string]string{"COLOUR": "blue {port}"}
	var mu sync.Mutex
	var ready []string
	o.OnReady = func(url string, restarts int) {
		mu.Lock()
		defer mu.Unlock()
		ready = append(ready, fmt.Sprint(url, " ", restarts))
	}
	g := start(t, o)
	var want, wantReady []string
	for i := range 3 {
		url := fmt.Sprintf("http://127.0.0.1:%d", o.BasePort+i)
		want, wantReady = append(want, url), append(wantReady, url+" 0")
	}
	if d := cmp.Diff(want, g.URLs()); d != "" {
		t.Errorf("the ports are not consecutive: %s", d)
	}
	mu.Lock()
	slices.Sort(ready)
	if d := cmp.Diff(wantReady, ready); d != "" {
		t.Errorf("calls of OnReady: %s", d)
	}
	mu.Unlock()
	var pids []int
	for i, url := range g.URLs() {
		pids = append(pids, pidOf(t, url, "/pid"))
		if got, want := mustGet(t, url+"/env/COLOUR"), fmt.Sprint("blue ", o.BasePort+i); got != want {
			t.Errorf("COLOUR is %q, want %q", got, want)
		}
		if got := mustGet(t, url+"/env/SHAPE"); got != "round" {
			t.Errorf("SHAPE is %q", got)
		}
		if got := mustGet(t, url+"/dir"); got != o.Command.Dir {
			t.Errorf("the working folder is %q, want %q", got, o.Command.Dir)
		}
		group, err := syscall.Getpgid(pids[i])
		if err != nil || group != pids[i] {
			t.Errorf("the server's process group is %d (%v), want a new group, %d", group, err, pids[i])
		}
	}
	if err := g.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("server %d outlived Close", pid)
		}
	}
	log, err := os.ReadFile(filepath.Join(o.LogDir, fmt.Sprintf("fake_%d.log", o.BasePort+2)))
	if err != nil || !strings.Contains(string(log), fmt.Sprintf("serve %d", o.BasePort+2)) {
		t.Errorf("the log of the third server does not contain its command: %s %v", log, err)
	}
}

func TestFailedStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("not a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		change func(o *Options)
		want   []string
	}{
		{"missing program", func(o *Options) { o.Command.Args[0] = "no-such-server" }, []string{`no program "no-such-server" in PATH`, "install it"}},
		{"missing path", func(o *Options) { o.Command.Args[0] = "/no/such/server" }, []string{"no program /no/such/server", "install it"}},
		{"not a program", func(o *Options) { o.Command.Args[0] = file }, []string{"exec format error"}},
		{"no command", func(o *Options) { o.Command.Args = nil }, []string{"no command"}},
		{"missing folder", func(o *Options) { o.Command.Dir = "/no/such/folder" }, []string{"working folder", "/no/such/folder"}},
		{"folder is a file", func(o *Options) { o.Command.Dir = file }, []string{"is a file"}},
		{"ports beyond the last", func(o *Options) { o.BasePort = 65535; o.Servers = 2 }, []string{"do not fit"}},
		{"exits at once", func(o *Options) { o.Command.Args[1] = "fail" }, []string{"it ended with status 1", "No module named 'gymnasium'"}},
		{"no watchdog", func(o *Options) { o.Watchdog = []string{"/bin/false"} }, []string{"status 1"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := fake(t, "serve", 1)
			test.change(&o)
			g, err := Start(t.Context(), o)
			if err == nil {
				_ = g.Close(t.Context())
				t.Fatal("Start succeeded")
			}
			for _, want := range append(test.want, "launch fake: ") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not contain %q", err, want)
				}
			}
		})
	}
}

// TestStartTimesOut checks the errors of servers that run and do not answer. The first limit may be too short for a busy machine
// to start the server at all, so the test tries longer ones.
func TestStartTimesOut(t *testing.T) {
	for name, want := range map[string][]string{
		"hang": {"connection refused", "it wrote nothing"},
		"mute": {"loading the index"},
	} {
		t.Run(name, func(t *testing.T) {
			for limit := 500 * time.Millisecond; ; limit *= 4 {
				o := fake(t, name, 1)
				o.StartTimeout = limit
				g, err := Start(t.Context(), o)
				if err == nil {
					_ = g.Close(t.Context())
					t.Fatal("Start succeeded")
				}
				for _, part := range []string{"launch fake: ", fmt.Sprintf("did not answer within %v (start_timeout_s)", limit)} {
					if !strings.Contains(err.Error(), part) {
						t.Fatalf("%q does not contain %q", err, part)
					}
				}
				missing := slices.DeleteFunc(slices.Clone(want), func(part string) bool { return strings.Contains(err.Error(), part) })
				if len(missing) == 0 {
					return
				}
				if limit > 20*time.Second {
					t.Fatalf("%q does not contain %q", err, missing)
				}
			}
		})
	}
}

func TestTakenPort(t *testing.T) {
	o := fake(t, "serve", 2)
	taken, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", o.BasePort+1))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	g, err := Start(t.Context(), o)
	if err == nil {
		_ = g.Close(t.Context())
		t.Fatal("Start succeeded")
	}
	if want := fmt.Sprintf("launch fake: port %d is taken", o.BasePort+1); !strings.Contains(err.Error(), want) {
		t.Errorf("%q does not contain %q", err, want)
	}
}

// TestStartIsAllOrNothing checks that Start stops all servers if one fails to start, including the servers that already
// answer.
func TestStartIsAllOrNothing(t *testing.T) {
	o := fake(t, "serve", 2)
	var mu sync.Mutex
	var pid int
	o.Command.Args = []string{"/bin/sh", "-c", "if [ {port} = $LAST ]; then while ! [ -e $FLAG ]; do sleep 0.02; done; exit 1; fi; exec /proc/$PPID/exe serve {port}"}
	flag := filepath.Join(t.TempDir(), "flag")
	o.Command.Set = map[string]string{"FLAG": flag, "LAST": strconv.Itoa(o.BasePort + 1)}
	o.OnReady = func(url string, _ int) {
		mu.Lock()
		defer mu.Unlock()
		pid = pidOf(t, url, "/pid")
		if err := os.WriteFile(flag, nil, 0o644); err != nil {
			t.Error(err)
		}
	}
	if g, err := Start(t.Context(), o); err == nil {
		_ = g.Close(t.Context())
		t.Fatal("Start succeeded")
	}
	mu.Lock()
	defer mu.Unlock()
	if pid == 0 || alive(pid) {
		t.Errorf("the process of the working server is %d, want a process that has ended", pid)
	}
}

func TestStartIsCancelled(t *testing.T) {
	o := fake(t, "hang", 2)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("cancelled by the test")
	time.AfterFunc(200*time.Millisecond, func() { cancel(why) })
	if _, err := Start(ctx, o); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

func TestRestart(t *testing.T) {
	o := fake(t, "serve", 2)
	down, up := make(chan error, 16), make(chan int, 16)
	o.OnDown = func(url string, err error) { down <- err }
	o.OnReady = func(_ string, restarts int) { up <- restarts }
	g := start(t, o)
	<-up
	<-up
	url := g.URLs()[0]
	first := pidOf(t, url, "/pid")
	stray := pidOf(t, url, "/spawn")
	other := pidOf(t, g.URLs()[1], "/pid")

	_, _ = get(url + "/die") // the server exits without a reply
	if err := <-down; !strings.Contains(err.Error(), "status 3") || !strings.Contains(err.Error(), url) {
		t.Errorf("OnDown received %v", err)
	}
	if n := <-up; n != 1 {
		t.Errorf("%d restarts, want 1", n)
	}
	if alive(stray) {
		t.Error("a child of the dead server is still running when the next server is ready")
	}
	if pid := pidOf(t, url, "/pid"); pid == first {
		t.Error("the server is still the same process")
	}
	if err := syscall.Kill(pidOf(t, url, "/pid"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-down; !strings.Contains(err.Error(), "signal 9") {
		t.Errorf("OnDown received %v", err)
	}
	if n := <-up; n != 2 {
		t.Errorf("%d restarts, want 2", n)
	}
	if pid := pidOf(t, g.URLs()[1], "/pid"); pid != other {
		t.Error("the other server was restarted too")
	}
}

// TestRestartBacksOff checks that the pause before a restart doubles while the server dies again.
func TestRestartBacksOff(t *testing.T) {
	o := fake(t, "serve", 1)
	flag := filepath.Join(t.TempDir(), "flag")
	o.Command.Args = []string{"/bin/sh", "-c", "if [ -e $FLAG ]; then echo again; exit 1; fi; : > $FLAG; exec /proc/$PPID/exe serve {port}"}
	o.Command.Set = map[string]string{"FLAG": flag}
	up := make(chan int, 16)
	o.OnReady = func(_ string, restarts int) { up <- restarts }
	o.Backoff, o.BackoffMax = 20*time.Millisecond, 80*time.Millisecond
	g := start(t, o)
	<-up
	_, _ = get(g.URLs()[0] + "/die")
	log := filepath.Join(o.LogDir, fmt.Sprintf("fake_%d.log", o.BasePort))
	eventually(t, "the server has been started five times", func() bool {
		b, err := os.ReadFile(log)
		return err == nil && strings.Count(string(b), "\nagain\n") >= 4
	})
	if err := os.Remove(flag); err != nil {
		t.Fatal(err)
	}
	if n := <-up; n < 5 {
		t.Errorf("the server answers after %d restarts, want at least 5", n)
	}
}

func TestLogIsCapped(t *testing.T) {
	o := fake(t, "serve", 1)
	o.LogBytes = 64 << 10
	g := start(t, o)
	mustGet(t, g.URLs()[0]+"/log/5000")
	log := filepath.Join(o.LogDir, fmt.Sprintf("fake_%d.log", o.BasePort))
	eventually(t, "the last line is in the logs", func() bool {
		var text []byte
		for _, name := range []string{log + ".1", log} { // the last line may begin in the first file and end in the second
			b, _ := os.ReadFile(name) // it may not exist yet
			text = append(text, b...)
		}
		return strings.Contains(string(text), "line 004999 "+strings.Repeat("x", 80)+"\n")
	})
	total := int64(0)
	for _, name := range []string{log, log + ".1"} {
		st, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		total += st.Size()
	}
	if total > o.LogBytes {
		t.Errorf("the logs have %d bytes, want at most %d", total, o.LogBytes)
	}
}

// TestHungServer checks that a server that accepts connections but does not answer is restarted, and that all its
// processes end.
func TestHungServer(t *testing.T) {
	o := fake(t, "serve", 1)
	o.HangTimeout = 2 * time.Second // on a busy machine a healthy server may be restarted too, which is harmless
	down := make(chan error, 64)
	o.OnDown = func(_ string, err error) { down <- err }
	g := start(t, o)
	url := g.URLs()[0]
	hung := pidOf(t, url, "/pid")
	stray := pidOf(t, url, "/spawn")
	if err := syscall.Kill(hung, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server is reported as hung", func() bool {
		select {
		case err := <-down:
			return strings.Contains(err.Error(), "hung: no answer for 2s") && strings.Contains(err.Error(), url)
		default:
			return false
		}
	})
	eventually(t, "a new server answers", func() bool {
		text, err := get(url + "/pid")
		pid, _ := strconv.Atoi(text)
		return err == nil && pid != 0 && pid != hung
	})
	if alive(hung) || alive(stray) {
		t.Error("the hung server or its child is still running")
	}
}
