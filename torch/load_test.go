package torch_test

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/torch"
)

// TestLoadFailure checks that a library that cannot be loaded is an error that names it, not a crash.
func TestLoadFailure(t *testing.T) {
	if os.Getenv("OPENMANUS_TEST_LOAD_FAILURE") != "" {
		if n := torch.LiveTensors(); n != 0 {
			t.Errorf("%d tensors before the libraries are loaded", n)
		}
		_, first := torch.NewThread(torch.Device{})
		_, again := torch.NewThread(torch.Device{})
		_, device := torch.ParseDevice("cuda")
		for _, err := range []error{first, again, device} {
			if err == nil || !strings.Contains(err.Error(), "libopenmanus_torch.so: file too short; install openmanus again") {
				t.Errorf("got %v, want an error that names the library", err)
			}
		}
		return
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "libopenmanus_torch.so"), []byte("cut"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestLoadFailure$", "-test.v")
	cmd.Env = append(os.Environ(), "OPENMANUS_TEST_LOAD_FAILURE=1", "LD_LIBRARY_PATH="+dir)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestLoadFailure") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestApplyKernels checks that a wrong value is an error.
func TestApplyKernels(t *testing.T) {
	if err := torch.ApplyKernels("of"); err == nil || !strings.Contains(err.Error(), `OPENMANUS_KERNELS is "of"; want on or off`) {
		t.Errorf("got %v, want an error", err)
	}
}

// TestNotLinked checks that the program does not link to the native libraries: commands that do not compute would load
// 450 MB.
func TestNotLinked(t *testing.T) {
	f, err := elf.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	if err != nil || len(libraries) == 0 {
		t.Fatalf("libraries %v, error %v", libraries, err)
	}
	for _, l := range libraries {
		if !strings.HasPrefix(l, "libc.so.") && !strings.HasPrefix(l, "libpthread.so.") && !strings.HasPrefix(l, "libdl.so.") &&
			!strings.HasPrefix(l, "libm.so.") && !strings.HasPrefix(l, "libresolv.so.") && !strings.HasPrefix(l, "ld-linux") {
			t.Errorf("the test program links to %s, want only libraries of glibc", l)
		}
	}
}
