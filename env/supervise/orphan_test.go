package supervise

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openmanus/openmanus/env/listen/listentest"
)

// gone waits until all processes have ended. If a process is left after a minute, gone kills it and the test fails.
func gone(t *testing.T, pids []int) {
	t.Helper()
	for range 6000 {
		left := false
		for _, pid := range pids {
			left = left || alive(pid)
		}
		if !left {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, pid := range pids {
		if alive(pid) {
			cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			t.Errorf("process %d is an orphan: %s", pid, strings.ReplaceAll(string(cmdline), "\x00", " "))
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// launcher starts this binary as a program that launches two servers.
func launcher(t *testing.T, role string) (cmd *exec.Cmd, urls []string) {
	t.Helper()
	base := listentest.Ports(t, 2)
	cmd = exec.Command("/proc/self/exe", "launcher", role, strconv.Itoa(base), "2", t.TempDir())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the launcher printed %q (%v)", line, err)
	}
	for i := range 2 {
		urls = append(urls, fmt.Sprintf("http://127.0.0.1:%d", base+i))
	}
	return cmd, urls
}

// TestNoOrphansAfterKill checks that all descendants of the program end after it is killed and cannot clean up.
func TestNoOrphansAfterKill(t *testing.T) {
	for _, role := range []string{"serve", "wrapper"} {
		t.Run(role, func(t *testing.T) {
			cmd, urls := launcher(t, role)
			var stubborn []int
			for _, url := range urls {
				stubborn = append(stubborn, pidOf(t, url, "/spawn"), pidOf(t, url, "/orphan"))
			}
			all := descendants(cmd.Process.Pid)
			for _, pid := range stubborn {
				if !slices.Contains(all, pid) {
					t.Errorf("process %d is no descendant of the program", pid)
				}
			}
			want := 8 // two watchdogs, two servers and their four children
			if role == "wrapper" {
				want = 10
			}
			if len(all) != want {
				t.Errorf("the program has %d descendants, want %d", len(all), want)
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // Wait returns the error of the kill
			gone(t, all)
		})
	}
}

// TestNoOrphansOfAnOrphan checks that a server's child ends after the server is killed. The watchdog inherits the
// child, which has another session.
func TestNoOrphansOfAnOrphan(t *testing.T) {
	cmd, urls := launcher(t, "serve")
	server := pidOf(t, urls[0], "/pid")
	stray := pidOf(t, urls[0], "/spawn")
	all := descendants(cmd.Process.Pid)
	if err := syscall.Kill(server, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	gone(t, []int{server, stray}) // the processes of the old server end; a new server starts
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	all = append(all, descendants(cmd.Process.Pid)...)
	_ = cmd.Wait() // Wait returns the error of the kill
	gone(t, all)
}

// TestNoOrphansOfAKilledWatchdog checks that a server and its child end after the watchdog, which normally ends them,
// is killed.
func TestNoOrphansOfAKilledWatchdog(t *testing.T) {
	o := fake(t, "serve", 1)
	down := make(chan error, 16)
	o.OnDown = func(_ string, err error) { down <- err }
	g := start(t, o)
	server := pidOf(t, g.URLs()[0], "/pid")
	stray := pidOf(t, g.URLs()[0], "/spawn")
	watchdog, _, ok := parentOf(server)
	if !ok {
		t.Fatal("the server has no parent")
	}
	if err := syscall.Kill(watchdog, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-down; !strings.Contains(err.Error(), "watchdog") {
		t.Errorf("OnDown received %v", err)
	}
	gone(t, []int{server, stray})
}

func TestWatchdogWithoutAnOrder(t *testing.T) {
	for _, in := range []string{"", "{\n", "{}\n", "no newline"} {
		cmd := exec.Command("/proc/self/exe", WatchdogCommand, "x")
		cmd.Stdin = strings.NewReader(in)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != exitWatchdog || !strings.Contains(string(out), "order") {
			t.Errorf("%q: %v: %s", in, err, out)
		}
	}
}
