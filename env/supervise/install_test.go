package supervise

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fakePython writes a shell script that replaces Python. version, pip and imports are its commands for the version
// check, pip and the import of the server.
func fakePython(t *testing.T, version, pip, imports string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "python3.11")
	script := "#!/bin/sh\ncase \"$1 $2\" in\n" +
		"'-c import sys'*) " + version + " ;;\n" +
		"'-c '*) " + imports + " ;;\n" +
		"'-m venv') mkdir -p \"$3/bin\" && cp \"$0\" \"$3/bin/python\" ;;\n" +
		"'-m pip') shift 3; " + pip + " ;;\n" +
		"*) exit 9 ;;\nesac\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestInstall(t *testing.T) {
	good := func(t *testing.T) string { return fakePython(t, "echo 3 11", `echo "pip arguments: $*"`, "pwd; env") }
	tests := []struct {
		name, env string
		python    func(t *testing.T) string
		files     string
		want      string // part of pip's output, or of the error if err is true
		err       bool
	}{
		{"textcraft", "textcraft", good, "agentenv-textcraft/", "pip arguments: fastapi uvicorn gymnasium numpy\n", false},
		{"babyai", "babyai", good, "agentenv-babyai/",
			"pip arguments: fastapi uvicorn gym==0.26.2 gymnasium==0.29.1 minigrid==2.3.1 matplotlib pillow numpy<2\n", false},
		{"sqlgym without data", "sqlgym", func(t *testing.T) string { return fakePython(t, "echo 3 10", `echo "pip arguments: $*"`, "exit 1") },
			"agentenv-sqlgym/", "sqlgym==0.1.2", false},
		{"old Python", "textcraft", func(t *testing.T) string { return fakePython(t, "echo 3 9", "", "") }, "agentenv-textcraft/", "is version 3.9", true},
		{"placeholder of a version manager", "textcraft", func(t *testing.T) string { return fakePython(t, "exit 127", "", "") }, "agentenv-textcraft/", "does not work: exit status 127", true},
		{"missing", "textcraft", func(*testing.T) string { return "no-such-python" }, "agentenv-textcraft/", `no program "no-such-python"`, true},
		{"pip fails", "textcraft", func(t *testing.T) string { return fakePython(t, "echo 3 12", "exit 3", "") }, "agentenv-textcraft/", "install the packages with pip", true},
		{"import fails", "textcraft", func(t *testing.T) string { return fakePython(t, "echo 3 12", "", "echo ImportError: numpy; exit 1") }, "agentenv-textcraft/", "ImportError: numpy", true},
		{"no submodule", "maze", good, "agentenv-lmrlgym/", "fetch the checkout's submodules", true},
		{"no checkout", "sciworld", good, "", "no folder agentenv-sciworld", true},
		{"not installable with pip", "searchqa", good, "agentenv-searchqa/", "an index and a corpus of Wikipedia", true},
		{"no recipe", "sokoban", good, "", "no recipe; ", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := checkout(t, strings.Fields(test.files)...)
			var out bytes.Buffer
			venv, err := VenvOf(t.Context(), test.env, Install{Checkout: dir, Python: test.python(t), Output: &out}, []string{"PATH=" + os.Getenv("PATH")})
			if test.err {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v, want %q", err, test.want)
				}
				found, _ := filepath.Glob(filepath.Join(dir, "*", venvName))
				if kept := len(found) > 0; kept != (test.name == "import fails") {
					t.Errorf("virtual environments after the failure: %v, want one only if the import fails", found)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := filepath.Join(dir, test.files, venvName); venv != want {
				t.Errorf("the venv is %s, want %s", venv, want)
			}
			if !strings.Contains(out.String(), test.want) {
				t.Errorf("pip printed %q, want %q", out.String(), test.want)
			}
		})
	}
}

// TestFailedInstallKeepsVenv checks that a failed update does not remove an existing virtual environment.
func TestFailedInstallKeepsVenv(t *testing.T) {
	dir := checkout(t, "agentenv-textcraft/", "mine/bin/python")
	bad := fakePython(t, "echo 3 11", "exit 1", "")
	_, err := VenvOf(t.Context(), "textcraft", Install{Checkout: dir, Venv: filepath.Join(dir, "mine"), Python: bad}, []string{"PATH=" + os.Getenv("PATH")})
	if err == nil {
		t.Fatal("VenvOf succeeded")
	}
	if _, err := os.Stat(filepath.Join(dir, "mine/bin/python")); err != nil {
		t.Error(err)
	}
}

func TestInstallIsCancelled(t *testing.T) {
	dir := checkout(t, "agentenv-textcraft/")
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("cancelled by the test")
	slow := fakePython(t, "echo 3 11", "sleep 3600", "")
	time.AfterFunc(200*time.Millisecond, func() { cancel(why) })
	if _, err := VenvOf(ctx, "textcraft", Install{Checkout: dir, Python: slow}, []string{"PATH=" + os.Getenv("PATH")}); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}
