package supervise

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// TestParentOfOddName checks parentOf for a process whose name contains brackets and spaces.
func TestParentOfOddName(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	odd := filepath.Join(t.TempDir(), "x) Z 1 (")
	if err := os.Symlink(sleep, odd); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(odd, "3600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	parent, state, ok := parentOf(cmd.Process.Pid)
	if !ok || parent != os.Getpid() || state == 'Z' {
		t.Errorf("parent %d, state %c, %v; want parent %d", parent, state, ok, os.Getpid())
	}
	if !slices.Contains(descendants(os.Getpid()), cmd.Process.Pid) {
		t.Error("the process is not among the descendants")
	}
}

func TestLogTail(t *testing.T) {
	tests := []struct{ name, log, want string }{
		{"of the last start", logHead + "start 1: x\nold\n" + logHead + "start 2: x\nnew\x1b[31m red\n\n" + logHead + "end: status 1\n", "the end of log:\n  new[31m red"},
		{"nothing", logHead + "start 1: x\n", "it wrote nothing to log"},
		{"many", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n", "the end of log:\n  3\n  4\n  5\n  6\n  7\n  8\n  9\n  10\n  11\n  12\n  13\n  14"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(test.log), 0o644); err != nil {
				t.Fatal(err)
			}
			if got := logTail(path); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
