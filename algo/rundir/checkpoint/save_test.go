package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// filler writes a checkpoint whose content depends on n.
func filler(n int) func(string) error {
	return func(dir string) error {
		if err := os.MkdirAll(filepath.Join(dir, "actor"), 0o755); err != nil {
			return err
		}
		for name, text := range map[string]string{"actor/model.safetensors": "weights ", "state.json": "state "} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text+strconv.Itoa(n)), 0o644); err != nil {
				return err
			}
		}
		return nil
	}
}

func save(t *testing.T, root string, step, keep int) {
	t.Helper()
	if err := Save(context.Background(), root, step, keep, filler(step)); err != nil {
		t.Fatal(err)
	}
}

func steps(t *testing.T, root string) string {
	t.Helper()
	list, err := List(root)
	if err != nil {
		t.Fatal(err)
	}
	var s []string
	for _, e := range list {
		s = append(s, strconv.Itoa(e.Step))
	}
	return strings.Join(s, " ")
}

// names lists everything in a folder.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var s []string
	for _, e := range entries {
		s = append(s, e.Name())
	}
	return strings.Join(s, " ")
}

func TestSaveAndOpen(t *testing.T) {
	root := filepath.Join(t.TempDir(), "run", "checkpoints")
	save(t, root, 40, 0)
	c, damaged, err := Latest(context.Background(), root)
	if err != nil || len(damaged) > 0 {
		t.Fatalf("Latest: %v, %v", damaged, err)
	}
	if d := cmp.Diff(&Checkpoint{Path: filepath.Join(root, "step_000040"), Step: 40}, c); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	m, err := readManifest(c.Path)
	want := []File{
		{"actor/model.safetensors", 10, "337bab6d627a31516cdf31791e548ed90d83da267db135cef13e67ddd8e61fae"},
		{"state.json", 8, "c7741dcd17dd05a3dbfeaf1ef491c3b7c97b51406896572556f35184deeab131"},
	}
	if d := cmp.Diff(want, m.Files); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	if text, err := os.ReadFile(c.File("actor/model.safetensors")); err != nil || string(text) != "weights 40" {
		t.Errorf("the weights are %q, %v, want \"weights 40\"", text, err)
	}
	if got := names(t, c.Path); got != "actor manifest.json state.json" {
		t.Errorf("the folder holds %s, want actor manifest.json state.json", got)
	}
}

func TestRetention(t *testing.T) {
	for name, tc := range map[string]struct {
		saved []int
		keep  int
		want  string
	}{
		"all":                      {[]int{1, 2, 3}, 0, "1 2 3"},
		"one":                      {[]int{1, 2, 3}, 1, "3"},
		"two":                      {[]int{1, 2, 3, 4}, 2, "3 4"},
		"more than there are":      {[]int{1, 2}, 5, "1 2"},
		"steps in order of number": {[]int{999999, 1000000, 1000001}, 2, "1000000 1000001"},
		"a lower step just saved":  {[]int{10, 20, 5}, 1, "5"},
		"the same step again":      {[]int{1, 2, 2}, 2, "1 2"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for _, s := range tc.saved[:len(tc.saved)-1] {
				save(t, root, s, 0)
			}
			save(t, root, tc.saved[len(tc.saved)-1], tc.keep)
			if got := steps(t, root); got != tc.want {
				t.Errorf("the checkpoints %s are left, want %s", got, tc.want)
			}
			if got := names(t, root); strings.Contains(got, tempSuffix) {
				t.Errorf("temporary folders are left: %s", got)
			}
		})
	}
}

// TestOperations pins the order of operations that makes saves durable: every file is synced before its folder, all
// files before the rename, the renamed folder before its parent's sync, and only then are old checkpoints removed.
func TestOperations(t *testing.T) {
	root := t.TempDir()
	save(t, root, 1, 0)
	save(t, root, 2, 0)
	var got []string
	d := disk{before: func(op, path string) error {
		rel, err := filepath.Rel(root, path)
		got = append(got, op+" "+rel)
		return err
	}}
	if err := d.save(context.Background(), root, 2, 1, filler(2)); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"makeall .",
		"remove step_000002.tmp",
		"mkdir step_000002.tmp",
		"fill step_000002.tmp",
		"sync step_000002.tmp/actor/model.safetensors",
		"sync step_000002.tmp/state.json",
		"write step_000002.tmp/manifest.json",
		"sync step_000002.tmp/manifest.json",
		"sync step_000002.tmp/actor",
		"sync step_000002.tmp",
		"remove step_000002.old.tmp",
		"rename step_000002.old.tmp",
		"rename step_000002",
		"sync .",
		"remove step_000002.old.tmp",
		"rename step_000001.gone.tmp",
		"remove step_000001.gone.tmp",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

var errFault = errors.New("fault")

// checkSurvived verifies the folder after a failed or killed save of step 3 (new, with steps 1 and 2 present, or
// replacing an older step 3): a restart finds a complete checkpoint with the content of its step, and no partial one.
func checkSurvived(t *testing.T, root string, minStep int) {
	t.Helper()
	if _, err := Clean(root); err != nil {
		t.Fatal(err)
	}
	if got := names(t, root); strings.Contains(got, tempSuffix) {
		t.Errorf("temporary folders are left after Clean: %s", got)
	}
	list, err := List(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list { // every folder with a checkpoint's name is complete
		if _, err := Open(context.Background(), e.Path); err != nil {
			t.Error(err)
		}
	}
	c, damaged, err := Latest(context.Background(), root)
	if err != nil || len(damaged) > 0 {
		t.Fatalf("Latest: %v, %v", damaged, err)
	}
	if c.Step < minStep || c.Step > 3 {
		t.Errorf("the newest checkpoint is of step %d, want a step from the last complete one to 3", c.Step)
	}
	text, err := os.ReadFile(c.File("state.json"))
	if err != nil || string(text) != "state "+strconv.Itoa(c.Step) {
		t.Errorf("step %d has the state %q, %v", c.Step, text, err)
	}
	if err := Save(context.Background(), root, 4, 2, filler(4)); err != nil { // the run can continue
		t.Errorf("the next save failed: %v", err)
	}
}

// cases lists the steps that are already saved when a fault is injected.
var cases = map[string][]int{"new": {1, 2}, "replace": {2, 3}}

// TestErrorsAtEveryPoint fails each operation in turn, as a full disk does.
func TestErrorsAtEveryPoint(t *testing.T) {
	for name, saved := range cases {
		fault := syscall.ENOSPC
		for point := 0; ; point++ {
			root := t.TempDir()
			for _, s := range saved {
				save(t, root, s, 0)
			}
			n := 0
			failed := ""
			d := disk{before: func(op, path string) error {
				n++
				if n-1 == point {
					failed = op + " " + filepath.Base(path)
					return fault
				}
				return nil
			}}
			err := d.save(context.Background(), root, 3, 2, filler(3))
			if failed == "" {
				if err != nil || point < 10 {
					t.Fatalf("%s: the save passed %d points, want at least 10; error %v", name, point, err)
				}
				break
			}
			if !errors.Is(err, fault) {
				t.Errorf("%s: the save with a fault at %s returned %v, want the fault", name, failed, err)
			}
			t.Run(fmt.Sprintf("%s %v at %s", name, fault, failed), func(t *testing.T) { checkSurvived(t, root, 2) })
		}
	}
}

// TestKilledAtEveryPoint kills a process with SIGKILL before each operation. A removal is half done when the process
// is killed.
func TestKilledAtEveryPoint(t *testing.T) {
	if os.Getenv("CHECKPOINT_KILL_POINT") != "" {
		killedHelper(t)
		return
	}
	for name, saved := range cases {
		for point := 0; ; point++ {
			root := t.TempDir()
			for _, s := range saved {
				save(t, root, s, 0)
			}
			cmd := exec.Command(os.Args[0], "-test.run", "^TestKilledAtEveryPoint$")
			cmd.Env = append(os.Environ(), "CHECKPOINT_KILL_POINT="+strconv.Itoa(point), "CHECKPOINT_ROOT="+root)
			out, err := cmd.CombinedOutput()
			if err == nil {
				if point < 10 {
					t.Fatalf("the save passed only %d points, want at least 10: %s", point, out)
				}
				break
			}
			if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || ws.Signal() != syscall.SIGKILL {
				t.Fatalf("the helper process ended with %v, want SIGKILL: %s", err, out)
			}
			t.Run(fmt.Sprintf("%s %d", name, point), func(t *testing.T) { checkSurvived(t, root, 2) })
		}
	}
}

func killedHelper(t *testing.T) {
	point, err := strconv.Atoi(os.Getenv("CHECKPOINT_KILL_POINT"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	d := disk{before: func(op, path string) error {
		n++
		if n-1 != point {
			return nil
		}
		switch op {
		case "remove":
			_ = os.Remove(filepath.Join(path, "state.json"))
		case "fill":
			_ = os.WriteFile(filepath.Join(path, "state.json"), []byte("ha"), 0o644)
		case "write":
			_ = os.WriteFile(path, []byte(`{"format":`), 0o644)
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}}
	if err := d.save(context.Background(), os.Getenv("CHECKPOINT_ROOT"), 3, 2, filler(3)); err != nil {
		t.Fatal(err)
	}
}

func TestSaveRefuses(t *testing.T) {
	for name, fill := range map[string]func(string) error{
		"the callback's error": func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "half"), []byte("x"), 0o644), errFault)
		},
		"nothing written": func(string) error { return nil },
		"a reserved name": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, ManifestFile), []byte("x"), 0o644)
		},
		"neither a file nor a folder": func(dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, "link")) },
	} {
		root := t.TempDir()
		save(t, root, 1, 0)
		err := Save(context.Background(), root, 2, 1, fill)
		want := strings.TrimPrefix(strings.TrimPrefix(name, "nothing "), "a ")
		if name == "the callback's error" {
			want = errFault.Error()
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "step_000002") {
			t.Errorf("%s: error %v", name, err)
		}
		if got := names(t, root); got != "step_000001" {
			t.Errorf("%s: the folder holds %s, want only step_000001", name, got)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	root := t.TempDir()
	err := Save(ctx, root, 1, 0, func(dir string) error { cancel(); return filler(1)(dir) })
	if !errors.Is(err, context.Canceled) || names(t, root) != "" {
		t.Errorf("the cancelled Save returned %v and left %q", err, names(t, root))
	}
	for _, bad := range [][2]int{{-1, 0}, {1, -1}, {maxStep + 1, 0}} {
		if err := Save(context.Background(), root, bad[0], bad[1], filler(1)); err == nil {
			t.Errorf("Save(step %d, keep %d) succeeded", bad[0], bad[1])
		}
	}
}
