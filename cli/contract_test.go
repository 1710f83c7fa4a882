package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/agent/openai/openaitest"
	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/internal/errext"
)

// TestProgram checks that a build with uncommitted changes is identified by the hash of its executable.
func TestProgram(t *testing.T) {
	const commit, sum = "0123456789abcdef0123456789abcdef01234567", "fedcba9876543210fedcba98"
	settings := func(commit, modified string) *debug.BuildInfo {
		return &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: commit}, {Key: "vcs.modified", Value: modified}}}
	}
	for _, tt := range []struct {
		name          string
		build         *debug.BuildInfo
		program, line string
	}{
		{"a commit", settings(commit, "false"), Version + " " + commit, "openmanus " + Version + " 0123456789ab ("},
		{"modified files", settings(commit, "true"), Version + " " + commit + " modified executable fedcba987654", "openmanus " + Version + " 0123456789ab+ executable fedcba987654 ("},
		{"no commit", &debug.BuildInfo{}, Version + " executable fedcba987654", "openmanus " + Version + " executable fedcba987654 ("},
		{"no build information", nil, Version + " executable fedcba987654", "openmanus " + Version + " executable fedcba987654 ("},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v, err := versionOf(tt.build, func() (string, error) { return sum, nil })
			if err != nil || v.program() != tt.program || !strings.HasPrefix(v.String(), tt.line) {
				t.Errorf("%v: %q, want %q; %q, want %q", err, v.program(), tt.program, v, tt.line)
			}
			_, err = versionOf(tt.build, func() (string, error) { return "", errors.New("gone") })
			if (err != nil) != (v.Executable != "") {
				t.Errorf("error for an executable that cannot be read: %v", err)
			}
		})
	}
}

// TestRunningVersion checks that a contract and `openmanus version` have the hash of the running executable.
func TestRunningVersion(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(file)
	want, err := newTestState(t).version()
	if err != nil || want.Commit == "" && !strings.HasPrefix(hex.EncodeToString(sum[:]), want.Executable) {
		t.Fatalf("%+v, %v; want %x", want, err, sum)
	}
	code, out, stderr := inProcess(t, t.TempDir(), "version", "--json")
	var printed versionInfo
	err = json.Unmarshal([]byte(out), &printed)
	libraries := printed.Libraries
	printed.Libraries = nil
	if code != 0 || err != nil || libraries == nil || printed != want {
		t.Errorf("exit code %d, %s%s; want %+v", code, out, stderr, want)
	}
	s := openaitest.Serve(t, walker)
	code, out, stderr = inProcess(t, t.TempDir(), "eval", "--dry-run", "--base-url", s.URL, "--api-model", "m", "--env", "maze", "--tasks", "17")
	if code != 0 || !strings.Contains(out, want.program()+"\n") {
		t.Errorf("exit code %d, %s%s; want %q", code, out, stderr, want.program())
	}
}

// TestContractWithoutDescription checks that the command fails if a server does not return its description, which a
// contract contains.
func TestContractWithoutDescription(t *testing.T) {
	maze, err := builtin.New("maze", builtin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/openapi.json" {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		maze.ServeHTTP(w, r)
	}))
	defer server.Close()
	s := openaitest.Serve(t, walker)
	code, out, stderr := inProcess(t, t.TempDir(), "eval", "--dry-run", "--base-url", s.URL, "--api-model", "m", "--env", "maze", "--tasks", "17", "--server", server.URL)
	if code != int(errext.Env) || out != "" || !strings.Contains(stderr, "status 503") || !strings.Contains(stderr, "remove the server") {
		t.Errorf("exit code %d, %s%s", code, out, stderr)
	}
}
