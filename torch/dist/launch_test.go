package dist

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// command starts this test binary with a role.
func command(role string) Command {
	env := append(os.Environ(), roleVariable+"="+role, timeoutVariable+"="+patient.String())
	return Command{Args: os.Args[:1], Env: env, Stdout: &buffer{}, Stderr: &buffer{}, Grace: patient}
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// await waits until the condition holds.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patient); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patient)
		}
	}
}

func TestLaunch(t *testing.T) {
	c := command("collectives")
	if status, err := Launch(t.Context(), 3, c, nil); status != 0 || err != nil {
		t.Errorf("status %d, %v: %s", status, err, c.Stderr)
	}
}

func TestLaunchEndsAllRanksWhenOneFails(t *testing.T) {
	for _, role := range []string{"fails", "ignores SIGTERM"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			c := command(role)
			if role != "fails" {
				c.Grace = 100 * time.Millisecond
			}
			status, err := Launch(t.Context(), 3, c, nil)
			if status != 7 || err == nil || !strings.Contains(err.Error(), "rank 1 of 3") {
				t.Errorf("status %d, %v, want the exit status 7 of rank 1", status, err)
			}
			if out := fmt.Sprint(c.Stderr); role == "fails" && !strings.Contains(out, "[rank 1] the cause\n") {
				t.Errorf("output %q, want the line of rank 1", out)
			}
		})
	}
}

// TestLaunchNamesTheKilledRank checks that a rank that is killed determines the result, also when the failure of another rank
// is seen before.
func TestLaunchNamesTheKilledRank(t *testing.T) {
	t.Parallel()
	status, err := Launch(t.Context(), 3, command("is lost after rank 1 ends"), nil)
	if status != killed || err == nil || !strings.Contains(err.Error(), "rank 2 of 3") {
		t.Errorf("status %d, %v, want the status %d of rank 2", status, err, killed)
	}
}

// TestLaunchLetsRank0Save checks that rank 0 gets neither SIGTERM nor the limit of the others after another rank has failed, and that it
// is killed after its own limit.
func TestLaunchLetsRank0Save(t *testing.T) {
	for _, limit := range []time.Duration{patient, 200 * time.Millisecond} {
		t.Run(limit.String(), func(t *testing.T) {
			t.Parallel()
			c := command("saves")
			failures := 0
			c.Grace, c.FirstGrace, c.Failed = 100*time.Millisecond, limit, func(error) { failures++ }
			if status, err := Launch(t.Context(), 3, c, nil); status != 7 || failures != 1 {
				t.Errorf("status %d, %v, %d failures, want the exit status 7 of rank 1", status, err, failures)
			}
			if saved := strings.Contains(fmt.Sprint(c.Stdout), "saved"); saved != (limit == patient) {
				t.Errorf("rank 0 has saved: %v", saved)
			}
		})
	}
}

func TestLaunchForwardsSignals(t *testing.T) {
	t.Parallel()
	c := command("waits for SIGINT")
	signals := make(chan os.Signal)
	go func() {
		await(t, "the output of all ranks", func() bool {
			return strings.Contains(fmt.Sprint(c.Stdout), "process") && strings.Contains(fmt.Sprint(c.Stderr), "[rank 1] process")
		})
		signals <- os.Interrupt
	}()
	if status, err := Launch(t.Context(), 2, c, signals); status != 0 || err != nil {
		t.Errorf("status %d, %v: %s", status, err, c.Stderr)
	}
}

func TestLaunchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if status, err := Launch(ctx, 2, command("waits for SIGINT"), nil); status != 128+int(syscall.SIGTERM) || err == nil {
		t.Errorf("status %d, %v, want 143 and an error", status, err)
	}
}

func TestLaunchOfMissingProgram(t *testing.T) {
	c := command("")
	c.Args = []string{"/nonexistent"}
	if _, err := Launch(t.Context(), 2, c, nil); err == nil || !strings.Contains(err.Error(), "/nonexistent") {
		t.Errorf("%v, want an error that names the program", err)
	}
}

// launcherRole is the role of a process that launches two ranks.
const launcherRole = "launcher"

func launcher() {
	c := command("waits for SIGINT")
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	status, err := Launch(context.Background(), 2, c, nil)
	fmt.Fprintln(os.Stderr, err)
	os.Exit(status)
}

func TestKilledLauncherLeavesNoRank(t *testing.T) {
	t.Parallel()
	var out buffer
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+launcherRole)
	cmd.Stderr = &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`process (\d+)\n`)
	await(t, "the output of both ranks", func() bool { return len(lines.FindAllString(out.String(), -1)) == 2 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	for _, m := range lines.FindAllStringSubmatch(out.String(), -1) {
		pid, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		await(t, "the end of process "+m[1], func() bool { return !alive(pid) })
	}
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}
