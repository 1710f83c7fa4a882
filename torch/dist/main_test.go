package dist

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openmanus/openmanus/internal/freeport"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// The tests start this binary again as the ranks of a group: roleVariable names the role that a process plays.
const roleVariable, timeoutVariable = "OPENMANUS_DIST_TEST_ROLE", "OPENMANUS_DIST_TEST_TIMEOUT"

// deviceVariable names the device of the processes, as in torchtest.
const deviceVariable = "OPENMANUS_TEST_DEVICE"

func TestMain(m *testing.M) {
	name := os.Getenv(roleVariable)
	if name == launcherRole {
		launcher()
	}
	role, ok := roles[name]
	if !ok {
		torchtest.Main(m)
	}
	if err := play(role); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(torchtest.Check(0))
}

// member is one rank inside a role.
type member struct {
	*Group
	s   *torch.Scope
	env Env
}

// play joins the group that the environment describes and runs role inside torch.Run.
func play(role func(context.Context, member) error) error {
	ctx := context.Background()
	env, found, err := ReadEnv(os.Getenv)
	if err != nil || !found {
		return fmt.Errorf("environment found: %v, error: %w", found, err)
	}
	timeout, err := time.ParseDuration(os.Getenv(timeoutVariable))
	if err != nil {
		return err
	}
	device, err := deviceOf(env)
	if err != nil {
		return err
	}
	th, err := torch.NewThread(device)
	if err != nil {
		return err
	}
	defer th.Close()
	torch.SetNumThreads(1)
	g, err := Join(ctx, env, timeout)
	if err != nil {
		return err
	}
	defer g.Abort()
	if err := torch.Run(ctx, th, func(s *torch.Scope) error { return role(ctx, member{g, s, env}) }); err != nil {
		return err
	}
	return g.Close(ctx)
}

// deviceOf returns the device of a rank: the one that OPENMANUS_TEST_DEVICE names, of several GPUs the one with the rank's number.
func deviceOf(env Env) (torch.Device, error) {
	name := os.Getenv(deviceVariable)
	switch name {
	case "":
		return torch.Device{}, nil
	case "cuda":
		if d, err := torch.ParseDevice(fmt.Sprintf("cuda:%d", env.LocalRank)); err == nil {
			return d, nil
		}
	}
	return torch.ParseDevice(name)
}

// process is a started rank.
type process struct {
	*exec.Cmd
	stdout, stderr bytes.Buffer
}

// startRank starts a process with the role and variables. It ends at the latest with the test.
func startRank(t testing.TB, role string, timeout time.Duration, env Env, variables ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0])}
	p.Env = append(os.Environ(), env.Variables()...)
	p.Env = append(p.Env, roleVariable+"="+role, timeoutVariable+"="+timeout.String())
	p.Env = append(p.Env, variables...)
	p.Stdout, p.Stderr = &p.stdout, &p.stderr
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.ProcessState == nil {
			_ = p.Process.Kill() // it may have ended
			_ = p.Wait()         // an error is expected
		}
	})
	return p
}

// startRanks starts the ranks of a group of n processes on this machine.
func startRanks(t *testing.T, n int, role string, timeout time.Duration, variables ...string) []*process {
	t.Helper()
	port := freePort(t)
	ps := make([]*process, n)
	for r := range ps {
		ps[r] = startRank(t, role, timeout, Env{Rank: r, Size: n, LocalRank: r, LocalSize: n, Host: "127.0.0.1", Port: port}, variables...)
	}
	return ps
}

// succeed waits for the process and fails the test if it failed.
func (p *process) succeed(t *testing.T) {
	t.Helper()
	if err := p.Wait(); err != nil {
		t.Errorf("%v: %s", err, &p.stderr)
	}
}

// fails waits for the process and fails the test if it did not end with an error that contains all texts.
func (p *process) fails(t *testing.T, texts ...string) {
	t.Helper()
	err := p.Wait()
	if p.ProcessState.ExitCode() != 1 {
		t.Fatalf("%v, want exit status 1: %s", err, &p.stderr)
	}
	for _, want := range texts {
		if !strings.Contains(p.stderr.String(), want) {
			t.Errorf("the error does not contain %q: %s", want, &p.stderr)
		}
	}
}

func freePort(t testing.TB) int {
	t.Helper()
	port, err := freeport.Find(1)
	if err != nil {
		t.Fatal(err)
	}
	return port
}
