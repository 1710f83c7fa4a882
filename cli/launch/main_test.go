package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/internal/payload"
)

// launcher is the content of the test binary, which is the launcher if an archive follows it.
var launcher []byte

func TestMain(m *testing.M) {
	self, err := os.Executable()
	if err == nil {
		var p *payload.Payload
		if p, err = payload.Open(self); err == nil || os.Getenv(asLauncher) != "" {
			if err == nil {
				_ = p.Close() // main opens the archive again
			}
			main()
			os.Exit(0)
		}
		launcher, err = os.ReadFile(self)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// asLauncher is the environment variable that makes a test binary without archive a launcher.
const asLauncher = "OPENMANUS_TEST_LAUNCHER"

// script is the program in the archives of these tests.
const script = `#!/bin/sh
test "$1 $2" = "version --libraries" && exit 0
echo "$0 args=$* exe=$OPENMANUS_EXE name=$NAME"
`

// one writes a one-file executable whose program is a shell script and whose library has padding bytes.
func one(t *testing.T, program string, padding int) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "openmanus")
	write(t, file, program, padding, int64(len(program)+padding))
	return file
}

func write(t *testing.T, file, program string, padding int, unpacked int64) {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	for _, h := range []tar.Header{
		{Name: "top/", Typeflag: tar.TypeDir},
		{Name: "top/bin/", Typeflag: tar.TypeDir},
		{Name: "top/bin/openmanus", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(program))},
		{Name: "top/lib.so", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(padding)},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		text := []byte(program)
		switch {
		case h.Typeflag == tar.TypeDir:
			continue
		case h.Name == "top/lib.so":
			text = make([]byte, padding)
		}
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(payload.Write(f, launcher, b.Bytes(), unpacked), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// start runs a command with a cache folder and returns its exit code and output.
func start(t *testing.T, cache string, args ...string) (code errext.ExitCode, stdout, stderr string) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "OPENMANUS_CACHE=" + cache, "NAME=value", asLauncher + "=1"}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return errext.ExitCode(cmd.ProcessState.ExitCode()), out.String(), errs.String()
}

// programs returns the entries of the folder of unpacked programs, except the lock.
func programs(t *testing.T, cache string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(cache, "programs"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.Name() != ".lock" {
			names = append(names, e.Name())
		}
	}
	return names
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q lacks %q", text, p)
		}
	}
}

func TestStart(t *testing.T) {
	file, cache := one(t, script, 10), filepath.Join(t.TempDir(), "cache")
	for i := range 2 {
		code, out, stderr := start(t, cache, file, "train", "a b")
		if code != 0 {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		contains(t, out, "args=train a b", "exe="+file, "name=value", cache)
		if said := strings.Contains(stderr, "unpacking"); said != (i == 0) {
			t.Errorf("start %d: %q", i+1, stderr)
		}
	}
	if n := programs(t, cache); len(n) != 1 || !strings.HasSuffix(n[0], "-linux-amd64") {
		t.Errorf("programs %q", n)
	}
	if _, _, stderr := start(t, cache, "env", "LD_PRELOAD=/none.so", file); !strings.Contains(stderr, "openmanus: LD_PRELOAD") {
		t.Errorf("stderr %q", stderr)
	}
}

// TestFirstStartsAtOnce checks that of several first starts one unpacks, and all run.
func TestFirstStartsAtOnce(t *testing.T) {
	file, cache := one(t, script, 20<<20), filepath.Join(t.TempDir(), "cache")
	var wg sync.WaitGroup
	var unpacked atomic.Int32
	for range 6 {
		wg.Go(func() {
			code, out, stderr := start(t, cache, file)
			if code != 0 || out == "" {
				t.Errorf("exit code %d: %s", code, stderr)
			}
			if strings.Contains(stderr, "unpacking") {
				unpacked.Add(1)
			}
		})
	}
	wg.Wait()
	if n := unpacked.Load(); n != 1 {
		t.Errorf("%d processes unpacked, want 1", n)
	}
	if n := programs(t, cache); len(n) != 1 {
		t.Errorf("programs %q", n)
	}
}

// TestKilledWhileUnpacking checks that a start succeeds after another was killed while it unpacked.
func TestKilledWhileUnpacking(t *testing.T) {
	file, cache := one(t, script, 64<<20), filepath.Join(t.TempDir(), "cache")
	cmd := exec.Command(file)
	cmd.Env = []string{"OPENMANUS_CACHE=" + cache, asLauncher + "=1"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if len(programs(t, cache)) > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the process was killed
	left := programs(t, cache)
	if len(left) != 1 || !strings.HasPrefix(left[0], ".tmp-") {
		t.Fatalf("the process left %q, want an incomplete folder", left)
	}
	if code, out, stderr := start(t, cache, file); code != 0 || out == "" {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if n := programs(t, cache); len(n) != 1 || n[0] == left[0] {
		t.Errorf("programs %q", n)
	}
}

func TestVersionsCoexist(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "cache")
	for _, padding := range []int{1, 2} {
		if code, _, stderr := start(t, cache, one(t, script, padding)); code != 0 {
			t.Fatal(stderr)
		}
	}
	if n := programs(t, cache); len(n) != 2 {
		t.Errorf("programs %q", n)
	}
}

func TestExtract(t *testing.T) {
	file, dir := one(t, script, 10), filepath.Join(t.TempDir(), "new")
	code, _, stderr := start(t, "", file, "--extract", dir)
	if code != 0 {
		t.Fatal(stderr)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "bin/openmanus")); err != nil || string(b) != script {
		t.Errorf("%q, error %v", b, err)
	}
	if code, _, _ := start(t, "", file, "--extract", dir); code != errext.Disk {
		t.Errorf("exit code %d for a folder that exists", code)
	}
	if _, err := os.Stat(filepath.Join(dir, "bin/openmanus")); err != nil {
		t.Errorf("the existing folder was changed: %v", err)
	}
	if code, _, _ := start(t, "", file, "--extract"); code != errext.Usage {
		t.Errorf("exit code %d without a folder", code)
	}
}

// TestProgramThatDoesNotRun checks the errors of systems that cannot run the program, and that nothing remains of it.
func TestProgramThatDoesNotRun(t *testing.T) {
	for _, tt := range []struct{ name, program, want string }{
		{"old glibc", "#!/bin/sh\necho \"libc.so.6: version 'GLIBC_2.34' not found\" >&2\nexit 1\n", "needs glibc 2.34"},
		{"no glibc", "#!/lib64/no-such-loader.so.2\n", "the system has no glibc"},
		{"other processor", "\x7fELF", "needs an x86-64 processor"},
		{"library", "#!/bin/sh\necho no libx.so >&2\nexit 6\n", "no libx.so"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cache := filepath.Join(t.TempDir(), "cache")
			code, _, stderr := start(t, cache, one(t, tt.program, 10))
			if code != errext.Native {
				t.Errorf("exit code %d", code)
			}
			contains(t, stderr, tt.want)
			if n := programs(t, cache); len(n) != 0 {
				t.Errorf("left %q", n)
			}
		})
	}
}

func TestCacheThatCannotBeUsed(t *testing.T) {
	base := t.TempDir()
	if err := os.Symlink(t.TempDir(), filepath.Join(base, "link")); err != nil {
		t.Fatal(err)
	}
	file := one(t, script, 10)
	for _, tt := range []struct{ cache, want string }{
		{filepath.Join(base, "link"), "it is a link"},
		{"relative", "absolute path"},
		{"", "HOME"},
		{"/proc/none/cache", "OPENMANUS_CACHE"},
		{filepath.Join(file, "below"), "set OPENMANUS_CACHE"}, // a folder above is a file
	} {
		code, _, stderr := start(t, tt.cache, file)
		if code != errext.Disk {
			t.Errorf("%q: exit code %d", tt.cache, code)
		}
		contains(t, stderr, tt.want)
	}
}

// TestCacheOfAnotherUser checks the hint for a cache folder that the user must not read.
func TestCacheOfAnotherUser(t *testing.T) {
	needRoot(t)
	cache := t.TempDir()
	if err := errors.Join(os.Chmod(cache, 0o700), os.Chmod(filepath.Dir(cache), 0o755)); err != nil {
		t.Fatal(err)
	}
	file := one(t, script, 10)
	if err := os.Chmod(file, 0o711); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := start(t, cache, "setpriv", "--reuid=65534", "--clear-groups", file); code != errext.Disk || !strings.Contains(stderr, "chmod +r") {
		t.Errorf("an executable that cannot be read: exit code %d: %s", code, stderr)
	}
	if err := os.Chmod(file, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{cache, filepath.Join(cache, "below")} {
		code, _, stderr := start(t, dir, "setpriv", "--reuid=65534", "--clear-groups", file)
		if code != errext.Disk {
			t.Errorf("%s: exit code %d", dir, code)
		}
		contains(t, stderr, "permission denied", "set OPENMANUS_CACHE")
	}
}

func TestTamperedProgram(t *testing.T) {
	file, cache := one(t, script, 10), filepath.Join(t.TempDir(), "cache")
	if code, _, stderr := start(t, cache, file); code != 0 {
		t.Fatal(stderr)
	}
	library := filepath.Join(cache, "programs", programs(t, cache)[0], "lib.so")
	change := func(text string) {
		t.Helper()
		if err := errors.Join(os.Chmod(library, 0o600), os.WriteFile(library, []byte(text), 0)); err != nil {
			t.Fatal(err)
		}
	}
	change("0123456789")
	if code, _, _ := start(t, cache, file); code != 0 {
		t.Errorf("exit code %d: a start without OPENMANUS_VERIFY compares contents", code)
	}
	code, _, stderr := start(t, cache, "env", "OPENMANUS_VERIFY=1", file)
	if code != errext.Disk {
		t.Errorf("exit code %d with OPENMANUS_VERIFY", code)
	}
	contains(t, stderr, library, "damaged")
	change("cut")
	if code, _, _ := start(t, cache, file); code != errext.Disk {
		t.Errorf("exit code %d for a file that was cut", code)
	}
}

func TestStrippedExecutable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "openmanus")
	if err := os.WriteFile(file, launcher, 0o755); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := start(t, t.TempDir(), file)
	if code != errext.Disk {
		t.Errorf("exit code %d", code)
	}
	contains(t, stderr, "do not strip")
}

func TestRefusesSetuid(t *testing.T) {
	needRoot(t)
	file := one(t, script, 10)
	if err := errors.Join(os.Chown(file, 65534, 65534), os.Chmod(file, 0o755|os.ModeSetuid)); err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(t.TempDir(), "cache")
	if code, _, stderr := start(t, cache, file); code != errext.Usage {
		t.Errorf("exit code %d (a folder for temporary files that is mounted nosuid cannot test this): %s", code, stderr)
	}
	if n := programs(t, cache); len(n) != 0 {
		t.Errorf("unpacked %q", n)
	}
}

// mounted runs the executable in a mount namespace where a small tmpfs is mounted with options on cache. It then
// prints the names in the folder of programs.
func mounted(t *testing.T, options, file string) (errext.ExitCode, string, string) {
	t.Helper()
	needRoot(t)
	dir := t.TempDir()
	return start(t, filepath.Join(dir, "cache"), "unshare", "--mount", "sh", "-c",
		`mount -t tmpfs -o "$1" tmpfs "$2" || exit 99; "$3"; code=$?; ls -A "$2/cache/programs"; exit $code`, "sh", options, dir, file)
}

func TestDiskFull(t *testing.T) {
	t.Run("known before", func(t *testing.T) {
		code, left, stderr := mounted(t, "size=4m", one(t, script, 8<<20))
		if code != errext.Disk || left != ".lock\n" {
			t.Errorf("exit code %d, left %q", code, left)
		}
		contains(t, stderr, "4 MB free, the program needs 9 MB", "OPENMANUS_CACHE")
	})
	t.Run("while writing", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "openmanus")
		write(t, file, script, 8<<20, 1) // the trailer promises less than the files need
		code, left, stderr := mounted(t, "size=4m", file)
		if code != errext.Disk || left != ".lock\n" {
			t.Errorf("exit code %d, left %q", code, left)
		}
		contains(t, stderr, "no space left", "OPENMANUS_CACHE")
	})
}

func TestNoexec(t *testing.T) {
	code, left, stderr := mounted(t, "size=4m,noexec", one(t, script, 10))
	if code != errext.Disk || left != ".lock\n" {
		t.Errorf("exit code %d, left %q", code, left)
	}
	contains(t, stderr, "noexec", "OPENMANUS_CACHE")
}

// TestReadOnlyFileSystem checks that a program that was unpacked before starts, and that unpacking is an error.
func TestReadOnlyFileSystem(t *testing.T) {
	needRoot(t)
	file, dir := one(t, script, 10), t.TempDir()
	cache := filepath.Join(dir, "cache")
	readOnly := func() (errext.ExitCode, string, string) {
		return start(t, cache, "unshare", "--mount", "sh", "-c", `mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && exec "$2"`, "sh", dir, file)
	}
	code, _, stderr := readOnly()
	if code != errext.Disk {
		t.Errorf("exit code %d", code)
	}
	contains(t, stderr, "read-only", "OPENMANUS_CACHE")
	if code, _, stderr := start(t, cache, file); code != 0 {
		t.Fatal(stderr)
	}
	if code, out, stderr := readOnly(); code != 0 || out == "" {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	if out, err := exec.Command("unshare", "--mount", "true").CombinedOutput(); err != nil {
		t.Skipf("needs mount namespaces: %v: %s", err, out)
	}
}
