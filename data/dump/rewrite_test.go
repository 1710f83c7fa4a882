package dump

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/crash"
)

// writeLossy writes a dump of three waves and two episodes without a wave. One episode of wave 1, one episode
// without a wave, and all of wave 3 are lost.
func writeLossy(t *testing.T, path string) {
	t.Helper()
	w, err := Create(path, testHeader())
	if err != nil {
		t.Fatal(err)
	}
	for sample, wave := range []int{1, 1, 1, 2, 2, 3, 0, 0} {
		e := plainEpisode(sample)
		if e.Wave = wave; wave > 0 {
			e.WaveSize = 4 - wave
		}
		if slices.Contains([]int{1, 5, 7}, sample) {
			e.Outcome = data.EnvError
		}
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func withoutLost(path string) (*Writer, []int, error) {
	var kept []int
	w, err := Continue(path, testHeader(), func(e *data.Episode) bool { return !e.Outcome.Trainable() }, func(e *data.Episode) error {
		kept = append(kept, e.Sample)
		return nil
	})
	return w, kept, err
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestContinueDrops checks that Continue removes the dropped episodes, reduces the sizes of their waves, changes
// nothing else, and returns a writer for the new file.
func TestContinueDrops(t *testing.T) {
	for _, name := range []string{"d.jsonl", "d.jsonl.zst"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, link := filepath.Join(dir, name), filepath.Join(dir, "link")
			writeLossy(t, path)
			if err := errors.Join(os.Chmod(path, 0o600), os.Symlink(path, link)); err != nil {
				t.Fatal(err)
			}
			before := readFile(t, path)
			_, was := readDump(t, path)
			w, kept, err := withoutLost(link)
			if err != nil || !slices.Equal(kept, []int{0, 2, 3, 4, 6}) {
				t.Fatalf("samples %v, error %v", kept, err)
			}
			for _, p := range []string{path, link} {
				if _, _, err := continued(p); err == nil || !strings.Contains(err.Error(), "another process is writing") {
					t.Errorf("a second writer: error %v", err)
				}
			}
			if err := errors.Join(w.Write(plainEpisode(9)), w.Close()); err != nil {
				t.Fatal(err)
			}
			r, got := readDump(t, path)
			if !slices.Equal(samplesOf(got), []int{0, 2, 3, 4, 6, 9}) || r.Torn() || r.Compressed() != strings.HasSuffix(name, ".zst") {
				t.Fatalf("samples %v, torn %v, compressed %v", samplesOf(got), r.Torn(), r.Compressed())
			}
			for _, e := range got[:5] {
				want := *was[e.Sample]
				if want.Wave == 1 {
					want.WaveSize = 2
				}
				if a, b := asJSON(newLine(e, "")), asJSON(newLine(&want, "")); a != b {
					t.Errorf("sample %d is %s, want %s", e.Sample, a, b)
				}
			}
			if diff := r.Header().Differences(testHeader()); len(diff) > 0 {
				t.Errorf("the header differs: %v", diff)
			}
			if st, err := os.Lstat(link); err != nil || st.Mode()&os.ModeSymlink == 0 {
				t.Errorf("the link was replaced: %v, %v", st, err)
			}
			if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
				t.Errorf("the file has mode %v, %v", st.Mode(), err)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "*.tmp")); len(left) > 0 {
				t.Errorf("temporary files: %v", left)
			}

			// If nothing is dropped, the file is not rewritten.
			after := readFile(t, path)
			w, _, err = withoutLost(path)
			if err := errors.Join(err, w.Close()); err != nil {
				t.Fatal(err)
			}
			if now := readFile(t, path); !bytes.Equal(now, after) || bytes.Equal(now, before) {
				t.Error("the file was rewritten")
			}
		})
	}
}

// rewriteIn names the environment variable with the path of the dump that a process rewrites until it is killed.
const rewriteIn = "OPENMANUS_TEST_REWRITE"

// TestKilledWhileRewriting checks that a dump is unchanged if the process is killed between writing the new file
// and the rename, and that the next process rewrites the dump.
func TestKilledWhileRewriting(t *testing.T) {
	if path := os.Getenv(rewriteIn); path != "" {
		_, _, err := withoutLost(path)
		t.Fatalf("the process was not killed: %v", err)
	}
	path := filepath.Join(t.TempDir(), "d.jsonl")
	writeLossy(t, path)
	before := readFile(t, path)
	for range 2 { // the second process finds the temporary file of the first
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestKilledWhileRewriting$")
		cmd.Env = append(os.Environ(), rewriteIn+"="+path, crash.Variable+"=dump/rename")
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("the process was not killed: %v\n%s", err, out)
		}
		if !bytes.Equal(readFile(t, path), before) {
			t.Fatal("the dump changed")
		}
	}
	w, kept, err := withoutLost(path)
	if err := errors.Join(err, w.Close()); err != nil || !slices.Equal(kept, []int{0, 2, 3, 4, 6}) {
		t.Errorf("samples %v, error %v", kept, err)
	}
	if _, got := readDump(t, path); !slices.Equal(samplesOf(got), kept) {
		t.Errorf("samples %v", samplesOf(got))
	}
}

// TestContinueOtherTasks checks that a dump cannot be continued if the task list of the same name has changed.
func TestContinueOtherTasks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d")
	header := func(tasks string) Header {
		h := testHeader()
		if tasks != "" {
			h.Options[TasksOption] = tasks
		}
		return h
	}
	for _, c := range []struct{ then, now, want string }{
		{"a", "a", ""},
		{"", "a", ""}, // an older dump
		{"a", "b", `tasks_digest: "a" then, "b" now`},
		{"a", "", `tasks_digest: "a" then, nothing now`},
	} {
		w, err := Create(path, header(c.then))
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		w, err = Continue(path, header(c.now), nil, func(*data.Episode) error { return nil })
		if err == nil {
			err = w.Close()
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q then, %q now: %v", c.then, c.now, err)
		}
	}
}
