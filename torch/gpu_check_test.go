package torch_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// source returns a file of the source folder. A pack of gpu_check.sh contains this test without the source folder.
func source(t *testing.T, name string) []byte {
	t.Helper()
	if _, err := os.Stat("../go.mod"); errors.Is(err, os.ErrNotExist) {
		t.Skip("the source folder is not here")
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// gpuCheck runs gpu_check.sh in an environment whose only PyTorch is named by env.
func gpuCheck(t *testing.T, args []string, env ...string) (out string, code int) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	// A copy elsewhere does not find the source folder's build/peer, and PATH has no python3.
	dir := t.TempDir()
	script := source(t, "gpu_check.sh")
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
		{"without CUDA, in the GPU's place", []string{"OPENMANUS_TORCH_LIB=" + cpu, "OPENMANUS_TEST_DEVICE=cpu"}, 0, []string{"2.11.0+cpu " + cpu}},
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
	if out, code := gpuCheck(t, nil, "OPENMANUS_TEST_DEVICE=cpu"); code != 1 || !strings.Contains(out, "no PyTorch 2.11.0") {
		t.Errorf("on the CPU without a PyTorch: exit status %d\n%s", code, out)
	}
	out, code := gpuCheck(t, nil)
	if code != 1 || !strings.Contains(out, "no NVIDIA GPU") || strings.Count(out, "\n") != 1 {
		t.Errorf("without a GPU: exit status %d\n%s", code, out)
	}
}

// write makes an executable file.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// checked is the result of a part.
type checked struct {
	Name   string
	OK     bool
	Error  string
	Values map[string]any
}

// runPack runs a pack whose programs are scripts on the CPU, and returns the results by the name of the part.
func runPack(t *testing.T, seconds int) (parts map[string]checked, out string, code int) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a pack")
	torchLib := pytorch(t, filepath.Join(dir, "torch-installed"), "2.11.0+cu130")
	for _, name := range []string{"gpu_check.sh", "gpu_check.py"} {
		write(t, filepath.Join(dir, name), string(source(t, name)))
	}
	write(t, filepath.Join(dir, "lib", "version.py"), "__version__ = '2.11.0+cu130'\n") // of the same commit: none
	version, err := json.Marshal(map[string]any{"libraries": map[string]any{
		"files": []string{filepath.Join(dir, "lib", "libopenmanus_torch.so")}, "libtorch_cpu": filepath.Join(torchLib, "libtorch_cpu.so"), "libtorch_cuda": "",
	}})
	if err != nil {
		t.Fatal(err)
	}
	// Training ends with the gradient norm 0 in its second step.
	write(t, filepath.Join(dir, "bin", "openmanus"), `#!/bin/bash
[ "$1" != version ] || { cat <<'TEXT'
`+string(version)+`
TEXT
exit; }
for s in "$@"; do case $s in trainer.output_dir=*) to=${s#*=}/quickstart ;; esac; done
mkdir -p "$to"
printf '{"step":1,"phase":"train","actor/grad_norm":1,"critic/grad_norm":1}\n{"step":2,"phase":"train","actor/grad_norm":0,"critic/grad_norm":1}\n{"step":3,"phase":"train","actor/grad_norm":1}\n' >"$to/metrics.jsonl"
`)
	write(t, filepath.Join(dir, "bin", "bench"), `#!/bin/bash
while [ $# -gt 0 ]; do case $1 in --model) model=$2 ;; --job) job=$2 ;; esac; shift; done
[ -s "$model/model.safetensors" ] || { echo "no model"; exit 1; }
echo '{
"speed": [{"job": '"$job"', "ours": 8, "unit": "tokens/s", "ours_seconds": [1]}], "memory": {"kv_cache": 7}}'
`)
	for _, p := range []string{"torch", "torch/nn", "torch/optim", "agent/llm/model", "agent/llm/generate", "algo/kl", "algo/loss", "algo/learner", "algo"} {
		test := "echo '--- PASS: TestOne (0.00s)'"
		switch p {
		case "torch/nn":
			test = "echo '--- PASS: TestFine (0.00s)\n--- FAIL: TestHurt (0.00s)\n    hurt_test.go:3: got 1, want 2'; exit 1"
		case "torch/optim":
			test = "echo 'no tests to run'"
		case "algo":
			test = "exec sleep 60"
		}
		write(t, filepath.Join(dir, p, "check"), "#!/bin/bash\n"+test+"\n")
	}
	cmd := exec.Command("bash", filepath.Join(dir, "gpu_check.sh"), "--out", filepath.Join(dir, "results"))
	cmd.Env = append(os.Environ(), "OPENMANUS_TEST_DEVICE=cpu", "OPENMANUS_TORCH_LIB="+torchLib, fmt.Sprint("OPENMANUS_GPU_CHECK_SECONDS=", seconds))
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Skip(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "results", "gpu_check.json"))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var report struct {
		OK, Small bool
		Parts     []checked
	}
	if err := json.Unmarshal(b, &report); err != nil {
		t.Fatal(err)
	}
	if !report.Small || report.OK {
		t.Errorf("the report is small: %t, ok: %t; want true and false", report.Small, report.OK)
	}
	parts = map[string]checked{}
	for _, p := range report.Parts {
		parts[p.Name] = p
	}
	return parts, string(text), cmd.ProcessState.ExitCode()
}

// TestGPUCheckReports checks that failed parts are reported with their reason and do not stop the others.
func TestGPUCheckReports(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for time limits, on any device alike")
	}
	parts, out, code := runPack(t, 12)
	if code != 1 {
		t.Errorf("exit status %d, want 1\n%s", code, out)
	}
	for name, want := range map[string]string{
		"libraries and machine": "", "1.5B-like, small: decode 8 rows after 16": "", "1.5B-like, small: train 200 rows of 16 to 32": "",
		"0.6B-like, small: train 1 row of 128": "", "memory": "", "profile": "", "tests of torch": "",
		"tests of torch/nn":    "exit status 1\n--- FAIL: TestHurt (0.00s)\n    hurt_test.go:3: got 1, want 2",
		"tests of torch/optim": "no test ran", "tests of algo": "still running after", "PPO with a critic": "not run: the time",
		"quickstart": "step 2 has the actor/grad_norm 0", "bfloat16 like float32": "not run: the time",
	} {
		if p, found := parts[name]; !found || p.OK != (want == "") || !strings.HasPrefix(p.Error, want) {
			t.Errorf("part %q: found %t, ok %t, error %q; want the error %q\n%s", name, found, p.OK, p.Error, want, out)
		}
	}
	if v := parts["memory"].Values["0.6B-like, small: train 1 row of 128"]; v == nil {
		t.Errorf("the table of the memory is %v", parts["memory"].Values)
	}
}
