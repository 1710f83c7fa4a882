package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/internal/errext"
)

// TestDamagedCheckpoint checks that a run skips a checkpoint whose weights do not match its manifest and resumes from the
// previous one. Without a valid checkpoint the error has a hint, and no file changes.
func TestDamagedCheckpoint(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	args := append([]string{"train", "run.toml"}, shortRun...)
	if code, _, stderr := inProcess(t, dir, args...); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	checkpoints := filepath.Join(dir, "runs", "tiny", "checkpoints")
	last := filepath.Join("step_000002", "actor", "model.safetensors")
	want := read(t, checkpoints, last)
	damage := func(name string, change func([]byte) []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(checkpoints, name), change(read(t, checkpoints, name)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	flip := func(b []byte) []byte {
		b = slices.Clone(b)
		b[len(b)-1] ^= 1
		return b
	}

	damage(last, flip)
	loud := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "--quiet" })
	code, stdout, stderr := inProcess(t, dir, loud...)
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	mustContain(t, "stderr", stderr, "checkpoint is damaged", "step_000002", "model.safetensors is corrupt", "resuming after step 1")
	mustContain(t, "stdout", stdout, "2 steps")
	if !bytes.Equal(read(t, checkpoints, last), want) {
		t.Error("the weights differ after the second step is repeated")
	}

	for _, name := range entries(t, checkpoints) {
		damage(filepath.Join(name, "state.json"), func(b []byte) []byte { return b[:len(b)/2] }) // truncated
	}
	before := entries(t, checkpoints)
	code, _, stderr = inProcess(t, dir, args...)
	if code != int(errext.Disk) || !slices.Equal(entries(t, checkpoints), before) {
		t.Errorf("exit code %d; got checkpoints %v, want %v", code, entries(t, checkpoints), before)
	}
	mustContain(t, "stderr", stderr, "no valid checkpoint", "remove damaged checkpoints")
}

// TestNoFolder checks the errors for a run folder that cannot be created and for an unknown crash point in the
// environment variable.
func TestNoFolder(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	writeFile(t, dir, "file", "not a folder")
	code, _, stderr := inProcess(t, dir, "train", "run.toml", "--quiet", "--set", "trainer.output_dir=file/runs")
	if code != int(errext.Disk) {
		t.Errorf("exit code %d", code)
	}
	mustContain(t, "stderr", stderr, "make the run folder", "set trainer.output_dir to a folder that can be written")

	if os.Geteuid() != 0 { // root can write to read-only folders
		if err := os.Mkdir(filepath.Join(dir, "locked"), 0o555); err != nil {
			t.Fatal(err)
		}
		code, _, stderr = inProcess(t, dir, "train", "run.toml", "--quiet", "--set", "trainer.output_dir=locked")
		if code != int(errext.Disk) {
			t.Errorf("read-only: exit code %d", code)
		}
		mustContain(t, "stderr", stderr, "permission denied", "set trainer.output_dir")

		if err := os.MkdirAll(filepath.Join(dir, "runs", "tiny", "checkpoints"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(dir, "runs", "tiny", "rollouts"), 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, "runs", "tiny"), ".lock", "")
		if err := os.Chmod(filepath.Join(dir, "runs", "tiny", ".lock"), 0o444); err != nil {
			t.Fatal(err)
		}
		code, _, stderr = inProcess(t, dir, "train", "run.toml", "--quiet")
		if code != int(errext.Disk) {
			t.Errorf("lock of another user: exit code %d", code)
		}
		mustContain(t, "stderr", stderr, "permission denied", "chown -R", "another trainer.experiment")
	}

	t.Setenv("OPENMANUS_CRASH_AT", "nowhere")
	code, _, stderr = inProcess(t, dir, "train", "run.toml", "--quiet")
	if code != int(errext.Input) {
		t.Errorf("exit code %d", code)
	}
	mustContain(t, "stderr", stderr, `"nowhere"`, "checkpoint/rename", "unset it")
}
