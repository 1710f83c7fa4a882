package checkpoint

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestLatestRefusesCorrupt(t *testing.T) {
	for name, tc := range map[string]struct {
		damage func(dir string) error
		want   string
	}{
		"a flipped byte": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "state.json"), []byte("state 9"), 0o644)
		}, "state.json is corrupt: its SHA-256"},
		"a cut file": {func(dir string) error {
			return os.Truncate(filepath.Join(dir, "actor/model.safetensors"), 3)
		}, "actor/model.safetensors is corrupt: 3 bytes instead of 9"},
		"a missing file": {func(dir string) error {
			return os.Remove(filepath.Join(dir, "state.json"))
		}, "no such file"},
		"no manifest": {func(dir string) error {
			return os.Remove(filepath.Join(dir, ManifestFile))
		}, ManifestFile},
		"a broken manifest": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, ManifestFile), []byte("{"), 0o644)
		}, ManifestFile},
		"another manifest": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, ManifestFile), []byte("{}"), 0o644)
		}, "does not describe a checkpoint"},
		"an empty manifest": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, ManifestFile), []byte(`{"format":"openmanus-checkpoint","version":1,"step":2}`), 0o644)
		}, "no files"},
		"a manifest of a newer version": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, ManifestFile), []byte(`{"format":"openmanus-checkpoint","version":2,"step":2}`), 0o644)
		}, "version 2"},
		"a path outside": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, ManifestFile),
				[]byte(`{"format":"openmanus-checkpoint","version":1,"step":2,"files":[{"path":"../step_000001/state.json","size":7,"sha256":""}]}`), 0o644)
		}, "outside the checkpoint"},
		"another step's folder": {func(dir string) error {
			return errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(filepath.Join(filepath.Dir(dir), "step_000001"))))
		}, "of step 1"},
		"a link": {func(dir string) error {
			path := filepath.Join(dir, "state.json")
			return errors.Join(os.Rename(path, dir+"-moved"), os.Symlink(dir+"-moved", path))
		}, "state.json is corrupt"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			save(t, root, 1, 0)
			save(t, root, 2, 0)
			if err := tc.damage(filepath.Join(root, "step_000002")); err != nil {
				t.Fatal(err)
			}
			c, damaged, err := Latest(context.Background(), root)
			if err != nil || c.Step != 1 {
				t.Fatalf("Latest = %+v, %v, want step 1", c, err)
			}
			if len(damaged) != 1 || !strings.Contains(damaged[0].Error(), filepath.Join(root, "step_000002")+": ") || !strings.Contains(damaged[0].Error(), tc.want) {
				t.Errorf("damaged checkpoints %v, want step 2 with the error %q", damaged, tc.want)
			}
			save(t, root, 2, 0) // replaces the damaged checkpoint
			if c, damaged, err := Latest(context.Background(), root); err != nil || c.Step != 2 || len(damaged) > 0 {
				t.Errorf("Latest after saving step 2 again = %+v, %v, %v", c, damaged, err)
			}
		})
	}
}

func TestNothingToResume(t *testing.T) {
	root := filepath.Join(t.TempDir(), "absent")
	if _, _, err := Latest(context.Background(), root); !errors.Is(err, ErrNone) {
		t.Errorf("Latest of an absent folder = %v", err)
	}
	if removed, err := Clean(root); err != nil || removed != nil {
		t.Errorf("Clean of an absent folder = %v, %v", removed, err)
	}
	save(t, root, 1, 0)
	if err := os.Remove(filepath.Join(root, "step_000001", "state.json")); err != nil {
		t.Fatal(err)
	}
	_, damaged, err := Latest(context.Background(), root)
	if !errors.Is(err, ErrNone) || len(damaged) != 1 {
		t.Errorf("Latest = %v, %v", damaged, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	save(t, root, 2, 0)
	if _, _, err := Latest(ctx, root); !errors.Is(err, context.Canceled) {
		t.Errorf("Latest after cancel = %v", err)
	}
}

func TestListAndCleanTouchOnlyTheirOwn(t *testing.T) {
	root := t.TempDir()
	save(t, root, 7, 0)
	for _, dir := range []string{
		"step_000008.tmp", "step_000009.gone.tmp", "step_000007.old.tmp", // leftovers of unfinished operations
		"step_8", "step_-00001", "step_0000008", "step_", "notes", "notes.tmp", "step_x.tmp", // files and folders of the user
	} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "step_000010"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := steps(t, root); got != "7" {
		t.Errorf("List = %s, want step 7", got)
	}
	removed, err := Clean(root)
	if err != nil || strings.Join(removed, " ") != "step_000007.old.tmp step_000008.tmp step_000009.gone.tmp" {
		t.Errorf("Clean = %v, %v", removed, err)
	}
	if got, want := len(strings.Fields(names(t, root))), 9; got != want {
		t.Errorf("%d entries are left, want %d: %s", got, want, names(t, root))
	}
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	l, err := AcquireLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	// flock locks open files, so a second AcquireLock in this process behaves like another process's.
	if _, err := AcquireLock(dir); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("second AcquireLock = %v, want ErrLocked with the process id", err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	second, err := AcquireLock(dir)
	if err != nil {
		t.Fatalf("AcquireLock after Release = %v", err)
	}
	if err := second.Release(); err != nil {
		t.Error(err)
	}
	if _, err := AcquireLock(filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("AcquireLock of an absent folder = %v, want os.ErrNotExist", err)
	}
}

// TestLockRemove removes a folder while another process waits to lock it.
func TestLockRemove(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := AcquireLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if l, err = AcquireLock(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "other"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.Remove(); err != nil { // the folder is kept because it has another file
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "other")); err != nil {
		t.Error(err)
	}
}
