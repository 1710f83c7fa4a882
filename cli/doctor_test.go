package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/cli/doctor"
	"github.com/openmanus/openmanus/internal/errext"
)

// TestDoctor checks the output and the exit code of doctor.
func TestDoctor(t *testing.T) {
	dir := t.TempDir()
	env := map[string]string{"HF_HUB_CACHE": "models"}
	code, stdout, stderr := inEnvironment(t, dir, env, "doctor", "--json")
	var found []doctor.Finding
	if err := json.Unmarshal([]byte(stdout), &found); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	if len(found) < 10 || !strings.Contains(stdout, dir+"/models") || !strings.Contains(stdout, dir+"/runs") {
		t.Errorf("found %s", stdout)
	}
	writeFile(t, dir, "runs", "a file in place of the folder")
	code, stdout, stderr = inEnvironment(t, dir, env, "doctor")
	if code != int(errext.Check) || !strings.Contains(stdout, "fail  disk of runs") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}
