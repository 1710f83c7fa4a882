package cli

import (
	"bytes"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/internal/errext"
)

// testState is a State that is independent of the process.
type testState struct {
	*State
	out, err *syncBuffer
	signals  chan<- Signal // the channel passed to Notify
	exited   chan int      // codes passed to Exit
	clock    time.Time
}

// offline is the environment of tests: it forbids requests to the Hugging Face hub.
func offline(key string) string {
	if key == "HF_HUB_OFFLINE" {
		return "1"
	}
	return ""
}

func newTestState(t *testing.T, args ...string) *testState {
	t.Helper()
	ts := &testState{out: &syncBuffer{}, err: &syncBuffer{}, exited: make(chan int, 1), clock: time.Unix(1e9, 0)}
	ts.State = &State{
		Args: append([]string{"openmanus"}, args...),
		Host: run.Host{
			Getenv: offline,
			// A started process needs PATH.
			Environ: func() []string { return []string{"PATH=" + os.Getenv("PATH")} },
			Dir:     t.TempDir(),
			Stdin:   strings.NewReader(""),
			Now:     func() time.Time { return ts.clock },
		},
		Stdout: ts.out,
		Stderr: ts.err,
		Notify: func(c chan<- Signal) func() { ts.signals = c; return func() {} },
		Exit:   func(code int) { ts.exited <- code },
	}
	ts.Log, ts.Progress = newLogger(ts.State, "info"), ts.newProgress
	return ts
}

// syncBuffer is a buffer that goroutines may use concurrently.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestOnlyStateImportsOS(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if file == "state.go" || strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imp := range f.Imports {
			switch path, _ := strconv.Unquote(imp.Path.Value); path {
			case "os", "os/signal", "os/exec", "syscall", "flag", "log":
				t.Errorf("%s imports %s; only state.go may import it", file, path)
			}
		}
	}
}

func TestWriteFile(t *testing.T) {
	s := newTestState(t)
	if err := s.WriteFile("a.txt", []byte("one"), false); err != nil {
		t.Fatal(err)
	}
	if err := s.WriteFile("a.txt", []byte("two"), false); err == nil {
		t.Error("WriteFile replaced an existing file")
	}
	read := func() string {
		b, err := s.ReadFile("a.txt", 100)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if got := read(); got != "one" {
		t.Errorf("file content: %q", got)
	}
	if err := s.WriteFile("a.txt", []byte("three"), true); err != nil {
		t.Fatal(err)
	}
	if got := read(); got != "three" {
		t.Errorf("file content: %q", got)
	}
	left, err := os.ReadDir(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 {
		t.Errorf("remaining files: %v", left)
	}
}

// TestWriteWithError checks that WriteWith returns the error of its callback and leaves no file.
func TestWriteWithError(t *testing.T) {
	s := newTestState(t)
	fault := errors.New("half")
	err := s.WriteWith("half.txt", true, func(w io.Writer) error {
		_, err := io.WriteString(w, "half")
		return errors.Join(err, fault)
	})
	if _, coded := errext.CodeOf(err); !errors.Is(err, fault) || coded {
		t.Errorf("error %v", err)
	}
	left, err := os.ReadDir(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 0 {
		t.Errorf("remaining files: %v", left)
	}
}

func TestReadFileLimit(t *testing.T) {
	s := newTestState(t)
	s.Stdin = strings.NewReader("12345")
	if _, err := s.ReadFile("-", 4); err == nil {
		t.Error("ReadFile with a limit of four bytes accepts five bytes")
	}
}
