package hub

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/openmanus/openmanus/agent/llm/hub/hubtest"
	"github.com/openmanus/openmanus/internal/errext"
)

// TestHelper fetches a model in another process, for tests that kill it or start two.
func TestHelper(t *testing.T) {
	if os.Getenv("HUB_TEST_FETCH") == "" {
		t.Skip("only runs in a process of another test")
	}
	c := New(FromEnvironment(os.Getenv), slog.New(slog.DiscardHandler))
	defer c.Close()
	if _, err := c.Fetch(t.Context(), name(t, "acme/tiny"), Options{}); err != nil {
		t.Fatal(err)
	}
}

// helper returns a process that fetches acme/tiny of s into cache.
func helper(ctx context.Context, s *hubtest.Server, cache string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestHelper$")
	cmd.Env = append(os.Environ(), "HUB_TEST_FETCH=1", "HF_HUB_CACHE="+cache, "HF_ENDPOINT="+s.URL, "HF_TOKEN=")
	return cmd
}

// TestResume kills a process that has fetched two of three parts, and checks that the next one fetches only the rest.
func TestResume(t *testing.T) {
	s, files := hubtest.New(t), tiny()
	s.Add("acme/tiny", hubtest.Repo{Files: files})
	release := make(chan struct{})
	s.SetFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.Header.Get("Range"), "bytes=8388608-") {
			<-release // the second part hangs until the process is killed
			return true
		}
		return false
	})
	set := settings(s, t)
	cmd := helper(t.Context(), s, set.Cache)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for { // until the two other parts are recorded
		found, err := filepath.Glob(filepath.Join(set.Cache, "models--acme--tiny/blobs/*"+partsExt))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 1 {
			if text, err := os.ReadFile(found[0]); err == nil && bytes.Contains(text, []byte("[0,2]")) {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("the process recorded no parts")
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	close(release)
	s.SetFault(nil)
	before := len(s.Requests())
	c, _, _ := newClient(t, set)
	got, err := c.Fetch(t.Context(), name(t, "acme/tiny"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	checkFolder(t, got.Path, fetched, files)
	checkClean(t, set.Cache)
	var ranges []string
	for _, r := range s.Requests()[before:] {
		if r.Storage {
			ranges = append(ranges, r.Range)
		}
	}
	if len(ranges) != 1 || ranges[0] != "bytes=8388608-16777215" {
		t.Errorf("the second fetch requested %v, want the second part", ranges)
	}
}

// TestOtherParts checks that the parts of another version, or a damaged list, are not used.
func TestOtherParts(t *testing.T) {
	for title, text := range map[string]string{"damaged": `{"size`, "other parts": `{"size": 16789561, "part": 100, "done": [0, 1, 2]}`} {
		t.Run(title, func(t *testing.T) {
			s, files := hubtest.New(t), tiny()
			s.Add("acme/tiny", hubtest.Repo{Files: files})
			set := settings(s, t)
			blobs := filepath.Join(set.Cache, "models--acme--tiny", "blobs")
			hash := strings.TrimPrefix(hashIn(t, s), "/")
			if err := os.MkdirAll(blobs, 0o755); err != nil {
				t.Fatal(err)
			}
			for ext, content := range map[string][]byte{incompleteExt: make([]byte, bigBytes), partsExt: []byte(text)} {
				if err := os.WriteFile(filepath.Join(blobs, hash+ext), content, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			c, log, _ := newClient(t, set)
			got, err := c.Fetch(t.Context(), name(t, "acme/tiny"), Options{})
			if err != nil {
				t.Fatal(err)
			}
			checkFolder(t, got.Path, fetched, files)
			if strings.Contains(log.String(), "damaged") {
				t.Errorf("the foreign parts were used:\n%s", log)
			}
		})
	}
}

// hashIn returns the hash of the weights of acme/tiny.
func hashIn(t *testing.T, s *hubtest.Server) string {
	t.Helper()
	c, _, _ := newClient(t, Settings{Endpoint: s.URL})
	l, err := c.list(t.Context(), name(t, "acme/tiny"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range l.files {
		if f.name == "model.safetensors" {
			return f.hash
		}
	}
	t.Fatal("no weights")
	return ""
}

// TestTwoProcesses fetches with two processes at once. Every part is downloaded once.
func TestTwoProcesses(t *testing.T) {
	s, files := hubtest.New(t), tiny()
	s.Add("acme/tiny", hubtest.Repo{Files: files})
	set := settings(s, t)
	var meet sync.WaitGroup // both processes have the list of files before one of them downloads
	meet.Add(2)
	var lists atomic.Int64
	s.SetFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/api/") && lists.Add(1) <= 2 {
			meet.Done()
			meet.Wait()
		}
		return false
	})
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if out, err := helper(t.Context(), s, set.Cache).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	both.Wait()
	path, err := set.Find(name(t, "acme/tiny"))
	if err != nil {
		t.Fatal(err)
	}
	checkFolder(t, path, fetched, files)
	checkClean(t, set.Cache)
	downloads := 0
	for _, r := range s.Requests() {
		if r.Storage {
			downloads++
		}
	}
	if downloads != 3 {
		t.Errorf("%d downloads of parts, want 3", downloads)
	}
}

// TestStall checks that a body that stalls is requested again.
func TestStall(t *testing.T) {
	s, files := hubtest.New(t), tiny()
	s.Add("acme/tiny", hubtest.Repo{Files: files})
	var stalled atomic.Int64
	s.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		if !r.URL.Query().Has("signature") || stalled.Add(1) > 2 {
			return false
		}
		w.Header().Set("Content-Length", "8388608")
		w.Header().Set("Content-Range", strings.Replace(r.Header.Get("Range"), "=", " ", 1)+"/16789561")
		w.WriteHeader(http.StatusPartialContent)
		_ = http.NewResponseController(w).Flush() // the client may have gone
		<-r.Context().Done()
		return true
	})
	set := settings(s, t)
	c, log, _ := newClient(t, set)
	c.stall = 50 * time.Millisecond
	got, err := c.Fetch(t.Context(), name(t, "acme/tiny"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	checkFolder(t, got.Path, fetched, files)
	if !strings.Contains(log.String(), errStalled.Error()) {
		t.Errorf("the log does not name the stall:\n%s", log)
	}
}

// TestCancel checks that a cancelled fetch ends with the cause, and that it keeps the cache's other models.
func TestCancel(t *testing.T) {
	s := hubtest.New(t)
	s.Add("acme/tiny", hubtest.Repo{Files: tiny()})
	ctx, cancel := context.WithCancelCause(t.Context())
	s.SetFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Has("signature") {
			cancel(errext.ErrInterrupted)
			<-r.Context().Done()
			return true
		}
		return false
	})
	set := settings(s, t)
	c, _, _ := newClient(t, set)
	if _, err := c.Fetch(ctx, name(t, "acme/tiny"), Options{}); !errors.Is(err, errext.ErrInterrupted) {
		t.Fatal(err)
	}
	if _, err := set.Find(name(t, "acme/tiny")); !errors.Is(err, ErrNotCached) {
		t.Fatal(err)
	}
}

// TestOffline checks that the cache is used, and the advice given, without network.
func TestOffline(t *testing.T) {
	s := hubtest.New(t)
	s.Add("acme/tiny", hubtest.Repo{Files: tiny()})
	set := settings(s, t)
	c, _, _ := newClient(t, set)
	got, err := c.Fetch(t.Context(), name(t, "acme/tiny"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	unreachable := set
	unreachable.Endpoint = "http://" + closed.Addr().String()
	offline := set
	offline.Offline = true
	for title, set := range map[string]Settings{"HF_HUB_OFFLINE": offline, "unreachable": unreachable} {
		t.Run(title, func(t *testing.T) {
			requests := len(s.Requests())
			c, _, _ := newClient(t, set)
			if found, err := c.Fetch(t.Context(), name(t, "acme/tiny"), Options{}); err != nil || found.Path != got.Path {
				t.Errorf("got %+v, %v, want the copy in the cache", found, err)
			}
			for _, o := range []Options{{}, {To: filepath.Join(t.TempDir(), "to")}} {
				_, err = c.Fetch(t.Context(), name(t, "acme/gone"), o)
				if codeOf(err) != errext.Model {
					t.Fatal(err)
				}
				for _, w := range []string{"openmanus model fetch acme/gone --to DIR", "HF_HOME", "HF_ENDPOINT"} {
					if !strings.Contains(err.Error(), w) {
						t.Errorf("%v lacks %q", err, w)
					}
				}
			}
			if len(s.Requests()) != requests {
				t.Error("a request was sent")
			}
		})
	}
}

// TestDisk checks the errors of a disk that is full or read-only.
func TestDisk(t *testing.T) {
	s := hubtest.New(t)
	s.Add("acme/tiny", hubtest.Repo{Files: tiny()})
	huge := int64(1) << 60
	if err := checkSpace(filepath.Join(t.TempDir(), "a", "b"), huge); codeOf(err) != errext.Disk || !strings.Contains(err.Error(), "HF_HOME") {
		t.Errorf("a full disk: %v", err)
	}
	if err := checkSpace(t.TempDir(), 1); err != nil {
		t.Error(err)
	}
	if err := onDisk(&fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}); codeOf(err) != errext.Disk || !strings.Contains(err.Error(), "make room") {
		t.Errorf("a disk that gets full: %v", err)
	}
	set := settings(s, t)
	if err := os.WriteFile(filepath.Join(set.Cache, "models--acme--tiny"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c, _, _ := newClient(t, set)
	if _, err := c.Fetch(t.Context(), name(t, "acme/tiny"), Options{}); codeOf(err) != errext.Disk {
		t.Errorf("a file in place of the folder: %v", err)
	}
}

// TestReadOnlyCache fetches a model that a read-only cache holds.
func TestReadOnlyCache(t *testing.T) {
	s := hubtest.New(t)
	s.Add("acme/tiny", hubtest.Repo{Files: tiny()})
	set := settings(s, t)
	c, log, _ := newClient(t, set)
	first, err := c.Fetch(t.Context(), name(t, "acme/tiny"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	// The tests may run as root, who may write anywhere: compare the files instead.
	list := func() (out []string) {
		err := filepath.WalkDir(set.Cache, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err == nil {
				out = append(out, path+" "+info.ModTime().String())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	before := list()
	second, err := c.Fetch(t.Context(), name(t, "acme/tiny"), Options{})
	if err != nil || second.Path != first.Path || second.Downloaded != 0 {
		t.Errorf("%+v, %v", second, err)
	}
	if after := list(); !slices.Equal(before, after) {
		t.Errorf("the second fetch changed the cache from\n%s\nto\n%s\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"), log)
	}
}
