package cli

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/internal/errext"
)

// rolloutArgs returns a command that plays twelve short episodes with the model in folder m.
func rolloutArgs(dump string, more ...string) []string {
	return append([]string{"rollout", "--model", "m", "--device", "cpu", "--env", "maze", "--tasks", "12,17,18", "--samples", "4",
		"--max-turns", "3", "--max-new-tokens", "6", "--concurrency", "2", "--dump", dump}, more...)
}

// readDump returns the episodes of a dump, ordered by uid and sample. Two episodes with the same key fail the test.
func readDump(t *testing.T, path string) []*data.Episode {
	t.Helper()
	r, err := dump.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var out []*data.Episode
	seen := map[episodeKey]bool{}
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if key := (episodeKey{e.UID, e.Sample}); seen[key] {
			t.Errorf("%v occurs twice", key)
		} else {
			seen[key] = true
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b *data.Episode) int {
		return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.Sample, b.Sample))
	})
	return out
}

// stuckMaze serves a maze. After the given number of steps it closes the given channel and stops replying.
func stuckMaze(t *testing.T, steps int64) (url string, stuck <-chan struct{}) {
	t.Helper()
	maze, err := builtin.New("maze", builtin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var n atomic.Int64
	hanging := make(chan struct{})
	var once sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/step") && n.Add(1) > steps {
			once.Do(func() { close(hanging) })
			_, _ = io.Copy(io.Discard, r.Body) // net/http notices a disconnected client only after the body is read
			<-r.Context().Done()
			return
		}
		maze.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, hanging
}

// TestRolloutContinues kills a rollout and continues its dump. It checks that the result equals an uninterrupted rollout.
func TestRolloutContinues(t *testing.T) {
	if testing.Short() {
		t.Skip("this test starts processes")
	}
	tiny := tinyModel(t)
	for _, tt := range []struct {
		name, dump string
		more       []string
	}{
		{"not deterministic", "d.jsonl", nil},
		{"compressed", "d.jsonl.zst", nil},
		{"deterministic", "d.jsonl", []string{"--deterministic"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			whole, killed := t.TempDir(), t.TempDir()
			link(t, tiny, whole, "m")
			link(t, tiny, killed, "m")
			if code, _, stderr := inProcess(t, whole, rolloutArgs(tt.dump, tt.more...)...); code != 0 {
				t.Fatalf("exit code %d\n%s", code, stderr)
			}
			path := filepath.Join(killed, tt.dump)
			url, stuck := stuckMaze(t, 13)
			p := openmanus(t, killed, rolloutArgs(tt.dump, append(tt.more, "--server", url)...)...)
			p.signalWhen(t, os.Kill, func() bool {
				select {
				case <-stuck:
					return true
				default:
					return false
				}
			})
			if n := len(readDump(t, path)); n < 1 || n > 11 {
				t.Fatalf("got %d episodes before the kill, want 1 to 11", n)
			}
			code, _, stderr := inProcess(t, killed, rolloutArgs(tt.dump, append(tt.more, "--continue")...)...)
			if code != 0 || !strings.Contains(stderr, "continuing the dump") {
				t.Fatalf("exit code %d\n%s", code, stderr)
			}
			want, got := readDump(t, filepath.Join(whole, tt.dump)), readDump(t, path)
			if len(got) != 12 {
				t.Fatalf("%d episodes, want 12", len(got))
			}
			diff := gocmp.Diff(want, got,
				// These fields depend on times, batches, the server or the instance.
				cmpopts.IgnoreFields(data.Episode{}, "Millis", "Wave", "WaveSize", "Server", "Exchanges", "Created", "LogProbs"),
				cmpopts.IgnoreFields(data.Turn{}, "GenMillis", "EnvMillis"))
			if diff != "" {
				t.Errorf("(-uninterrupted +continued)\n%s", diff)
			}
			last := 0
			for _, e := range got {
				last = max(last, e.Wave)
			}
			if deterministic := tt.more != nil; (last >= 6) != deterministic {
				t.Errorf("deterministic %t: the last wave of the dump is %d, want at least 6 if deterministic, else less", deterministic, last)
			}

			// A complete dump needs no further episodes; other settings are rejected.
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if code, _, stderr := inProcess(t, killed, rolloutArgs(tt.dump, append(tt.more, "--continue")...)...); code != 0 {
				t.Errorf("exit code %d\n%s", code, stderr)
			}
			code, _, stderr = inProcess(t, killed, rolloutArgs(tt.dump, append(tt.more, "--continue", "--seed", "2")...)...)
			if code != int(errext.Input) || !strings.Contains(stderr, "seed: 1 then, 2 now") {
				t.Errorf("with another seed: exit code %d\n%s", code, stderr)
			}
			if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
				t.Errorf("the dump changed from %d to %d bytes; error: %v", len(before), len(after), err)
			}
		})
	}
}

// TestRolloutOnAFullDisk checks the error of a rollout to a device that is always full.
func TestRolloutOnAFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this system has no /dev/full")
	}
	dir := t.TempDir()
	link(t, tinyModel(t), dir, "m")
	code, _, stderr := inProcess(t, dir, rolloutArgs("/dev/full", "--force")...)
	if code != int(errext.Disk) || !strings.Contains(stderr, "no space left") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}

func TestRolloutKeepsExistingDump(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "d.jsonl", "precious")
	code, _, stderr := inProcess(t, dir, rolloutArgs("d.jsonl")...)
	if code != int(errext.Usage) || !strings.Contains(stderr, "d.jsonl exists: give --continue") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	link(t, tinyModel(t), dir, "m")
	code, _, stderr = inProcess(t, dir, rolloutArgs("d.jsonl", "--continue")...)
	if code != int(errext.Input) || !strings.Contains(stderr, "not a dump") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "d.jsonl")); err != nil || string(text) != "precious" {
		t.Errorf("the dump changed to %q, %v", text, err)
	}
	code, _, stderr = inProcess(t, dir, rolloutArgs("d.jsonl", "--continue", "--force")...)
	if code != int(errext.Usage) || !strings.Contains(stderr, "--continue: --force") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}

// episodeKey identifies an episode of a dump.
type episodeKey struct {
	uid    string
	sample int
}
