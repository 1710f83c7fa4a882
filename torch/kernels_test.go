package torch_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/torch"
)

// architectures are those of A100, H100 and B200.
var architectures = []string{"sm_80", "sm_90", "sm_100"}

// TestKernelsCompile compiles the kernels for GPUs with the compiler that compiles them on a machine with a GPU.
func TestKernelsCompile(t *testing.T) {
	if os.Getenv("OPENMANUS_TEST_COMPILE") != "" {
		for _, a := range architectures {
			if n, err := torch.CompileKernels(a); err != nil || n == 0 {
				t.Errorf("%s: %d bytes, error %v", a, n, err)
			}
		}
		if _, err := torch.CompileKernels("sm_1"); err == nil || !strings.Contains(err.Error(), "cannot be compiled for sm_1") {
			t.Errorf("an unknown architecture: error %v", err)
		}
		return
	}
	if testing.Short() {
		t.Skip("compiles for many seconds, on any device alike")
	}
	dir, err := filepath.Abs("../build/nvrtc")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "libnvrtc.so.13")); err != nil {
		t.Skip("NVRTC is not in build/nvrtc; ./build.sh test fetches it")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestKernelsCompile$", "-test.v")
	cmd.Env = append(os.Environ(), "OPENMANUS_TEST_COMPILE=1", "LD_LIBRARY_PATH="+dir)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestKernelsCompile") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestKernelsNeedACompiler checks the error on a machine without NVRTC.
func TestKernelsNeedACompiler(t *testing.T) {
	_, err := torch.CompileKernels("sm_90")
	if err == nil {
		t.Skip("NVRTC is on the search path")
	}
	if !strings.Contains(err.Error(), "libnvrtc.so.13 cannot be loaded") {
		t.Errorf("error %v, want one that names the library", err)
	}
}
