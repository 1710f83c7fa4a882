// Package readertest runs the Python programs that read the output of openmanus in tests: TensorBoard, MLflow, wandb,
// huggingface_hub, the client of OpenAI and gguf. ./build.sh readers installs them into build/readers.
package readertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// Python returns the path of the Python interpreter that has the packages. The test is skipped if they are not installed.
func Python(t testing.TB) string {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	python := filepath.Join(filepath.Dir(file), "..", "..", "build", "readers", "bin", "python")
	if _, err := os.Stat(python); err != nil {
		t.Skip("the reading programs are not installed: run ./build.sh readers")
	}
	return python
}

// Run runs a Python script with arguments and returns its standard output. The test fails if the script fails.
func Run(t testing.TB, script string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), Python(t), append([]string{"-c", script}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		text := ""
		if e, ok := err.(*exec.ExitError); ok {
			text = string(e.Stderr)
		}
		t.Fatalf("python: %v\n%s", err, text)
	}
	return string(out)
}
