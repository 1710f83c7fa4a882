package torch_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// gpuCheck runs gpu_check.sh in an environment whose only PyTorch is named by env.
func gpuCheck(t *testing.T, args []string, env ...string) (out string, code int) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	// A copy elsewhere does not find the source folder's build/peer, and PATH has no python3.
	dir := t.TempDir()
	script, err := os.ReadFile("gpu_check.sh")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "torch", "gpu_check.sh")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, script, 0o755); err != nil {
		t.Fatal(err)
	}
	tools := filepath.Join(dir, "tools")
	if err := os.Mkdir(tools, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dirname", "sed", "head"} {
		tool, err := exec.LookPath(name)
		if err != nil {
			t.Skip("there is no " + name)
		}
		if err := os.Symlink(tool, filepath.Join(tools, name)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(bash, append([]string{path}, args...)...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + tools}, env...)
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// pytorch makes the files of an installed PyTorch that gpu_check.sh reads and returns its torch/lib.
func pytorch(t *testing.T, prefix, version string, files ...string) string {
	t.Helper()
	folder := filepath.Join(prefix, "lib", "python3.12", "site-packages", "torch")
	files = append(files, "version.py", "lib/libtorch_cpu.so")
	for _, name := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		text := ""
		if name == "version.py" {
			text = "__version__ = '" + version + "'\ndebug = False\n"
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(folder, "lib")
}

func TestGPUCheckFindsTorch(t *testing.T) {
	cuda, headers := "lib/libtorch_cuda.so", "include/torch/script.h"
	dir := t.TempDir()
	good := pytorch(t, filepath.Join(dir, "with space"), "2.11.0+cu130", cuda, headers)
	old := pytorch(t, filepath.Join(dir, "old"), "2.10.1+cu128", cuda, headers)
	cpu := pytorch(t, filepath.Join(dir, "cpu"), "2.11.0+cpu", headers)
	bare := pytorch(t, filepath.Join(dir, "bare"), "2.11.0", cuda)
	env := func(lib string) string { return strings.TrimSuffix(lib, "/lib/python3.12/site-packages/torch/lib") }
	for _, tt := range []struct {
		name string
		env  []string
		code int
		want []string
	}{
		{"named", []string{"OPENMANUS_TORCH_LIB=" + good}, 0, []string{"2.11.0+cu130 " + good}},
		{"virtual environment", []string{"VIRTUAL_ENV=" + env(good)}, 0, []string{good}},
		{"conda, after a PyTorch of another release", []string{"VIRTUAL_ENV=" + env(old), "CONDA_PREFIX=" + env(good)}, 0, []string{good}},
		{"the named PyTorch only", []string{"OPENMANUS_TORCH_LIB=" + old, "VIRTUAL_ENV=" + env(good)}, 1, []string{"release 2.10.1+cu128, want 2.11.0"}},
		{"without CUDA", []string{"OPENMANUS_TORCH_LIB=" + cpu}, 1, []string{"without CUDA", "pip install torch==2.11.0"}},
		{"without headers", []string{"OPENMANUS_TORCH_LIB=" + bare}, 1, []string{"without its C++ headers"}},
		{"not a folder", []string{"OPENMANUS_TORCH_LIB=" + filepath.Join(dir, "nowhere")}, 1, []string{"no such folder"}},
		{"nothing at all", nil, 1, []string{"no PyTorch 2.11.0 with CUDA", "OPENMANUS_TORCH_LIB"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, code := gpuCheck(t, []string{"--torch"}, tt.env...)
			if code != tt.code {
				t.Errorf("exit status %d, want %d", code, tt.code)
			}
			for _, want := range tt.want {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in:\n%s", want, out)
				}
			}
		})
	}
}

func TestGPUCheckRefuses(t *testing.T) {
	if out, code := gpuCheck(t, []string{"--what"}); code == 0 || !strings.Contains(out, "unknown argument --what") {
		t.Errorf("an unknown argument: exit status %d\n%s", code, out)
	}
	if _, err := os.Stat("/dev/nvidiactl"); err == nil {
		t.Skip("this machine has a GPU")
	}
	if _, err := os.Stat("/dev/dxg"); err == nil {
		t.Skip("this machine has a GPU")
	}
	out, code := gpuCheck(t, nil)
	if code != 1 || !strings.Contains(out, "no NVIDIA GPU") || strings.Count(out, "\n") != 1 {
		t.Errorf("without a GPU: exit status %d\n%s", code, out)
	}
}
