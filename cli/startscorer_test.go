package cli

import (
	"path/filepath"
	"testing"

	"github.com/openmanus/openmanus/internal/errext"
)

// TestScorerMissing trains with a score function whose script does not exist. It checks that the run ends before it
// creates a model, and leaves no checkpoint.
func TestScorerMissing(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	code, stdout, stderr := inProcess(t, dir, "train", "run.toml", "--set", "reward.score_fn=exec:sh gone.sh")
	if code != int(errext.Env) {
		t.Fatalf("exit code %d, want %d\n%s\n%s", code, errext.Env, stdout, stderr)
	}
	mustContain(t, "stderr", stderr, "before the first request", "gone.sh", "in a shell")
	if found, _ := filepath.Glob(filepath.Join(dir, "runs/*/checkpoints/*")); len(found) > 0 {
		t.Errorf("remaining files: %q", found)
	}
}
