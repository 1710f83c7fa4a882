package torch_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// cudaBuild is a folder with build.sh, whose native code is built already, and a cache of downloads.
type cudaBuild struct {
	t   *testing.T
	dir string
}

// newCUDABuild makes a folder whose lock files pin wheels that are in the cache.
func newCUDABuild(t *testing.T) cudaBuild {
	b := cudaBuild{t, t.TempDir()}
	body, found := bytes.CutSuffix(source(t, "../build.sh"), []byte("main \"$@\"\n"))
	if !found {
		t.Fatal("build.sh does not end with its call of main")
	}
	b.write("build.sh", string(body)+"native() { :; }\ncheck_cuda() { :; }\ncuda \"$@\"\n")
	b.write("build/libtorch/version.py", versionPy("2.11.0+cu130", "70d9"))
	libraries := map[string]string{}
	for _, name := range []string{"libtorch_cuda.so", "libtorch_cuda_linalg.so", "libtorch_nvshmem.so", "libc10_cuda.so", "libcaffe2_nvrtc.so"} {
		libraries["torch/lib/"+name] = name
	}
	libraries["torch/lib/libtorch_python.so"] = "not unpacked"
	b.write("third_party/libtorch.lock", b.wheel("torch", "2.11.0", libraries))
	b.write("third_party/cuda.lock", b.wheel("nvidia-cublas", "13.1", map[string]string{"nvidia/cu13/lib/libcublas.so.13": "cublas", "nvidia_cublas.dist-info/METADATA": ""})+
		b.wheel("nvidia-nccl-cu13", "2.28", map[string]string{"nvidia/nccl/lib/libnccl.so.2": "nccl"}))
	return b
}

func versionPy(release, commit string) string {
	return fmt.Sprintf("__version__ = '%s'\ncuda: Optional[str] = '13.0'\ngit_version = '%s'\n", release, commit)
}

func (b cudaBuild) path(name string) string { return filepath.Join(b.dir, filepath.FromSlash(name)) }

func (b cudaBuild) write(name, text string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(b.path(name)), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(b.path(name), []byte(text), 0o755); err != nil {
		b.t.Fatal(err)
	}
}

// wheel adds a wheel to the cache and returns its line in a lock file.
func (b cudaBuild) wheel(name, version string, files map[string]string) string {
	b.t.Helper()
	var buffer bytes.Buffer
	z := zip.NewWriter(&buffer)
	for name, text := range files {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		b.t.Fatal(err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(buffer.Bytes()))
	b.write("cache/sha256/"+sum+"/"+name+".whl", buffer.String())
	return fmt.Sprintf("%s==%s --hash=sha256:%s\n", name, version, sum)
}

// run calls `build.sh cuda`; tools come before those of the system.
func (b cudaBuild) run(tools string, args ...string) (out string, code int) {
	b.t.Helper()
	cmd := exec.Command("bash", append([]string{b.path("build.sh")}, args...)...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "OPENMANUS_CACHE="+b.path("cache"), "PATH="+tools+":"+os.Getenv("PATH"))
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		b.t.Skip(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

func (b cudaBuild) want(name, text string) {
	b.t.Helper()
	if got, err := os.ReadFile(b.path(name)); err != nil || string(got) != text {
		b.t.Errorf("%s contains %q, want %q (error %v)", name, got, text, err)
	}
}

func TestBuildCUDA(t *testing.T) {
	b := newCUDABuild(t)
	for _, want := range []string{"unpacking", "up to date"} {
		if out, code := b.run(""); code != 0 || !strings.Contains(out, want) {
			t.Fatalf("exit status %d, want 0 and %q:\n%s", code, want, out)
		}
	}
	b.want("build/libtorch/lib/libtorch_cuda.so", "libtorch_cuda.so")
	b.want("build/nvidia/cu13/lib/libcublas.so.13", "cublas")
	b.want("build/nvidia/nccl/lib/libnccl.so.2", "nccl")
	if _, err := os.Stat(b.path("build/libtorch/lib/libtorch_python.so")); err == nil {
		t.Error("a library of Python was unpacked")
	}

	installed := func(name, release, commit string, files ...string) string {
		for _, f := range files {
			b.write(name+"/"+f, "installed")
		}
		b.write(name+"/torch/version.py", versionPy(release, commit))
		return b.path(name + "/torch")
	}
	cuda, nvidia := "torch/lib/libtorch_cuda.so", "nvidia/cu13/lib/libcublas.so.13"
	good := installed("with space", "2.11.0+cu130", "70d9", cuda, nvidia)
	for _, tt := range []struct{ name, dir, want string }{
		{"another release", installed("old", "2.10.0+cu130", "70d9", cuda, nvidia), "is 2.10.0+cu130 commit 70d9, want 2.11.0+cu130 commit 70d9"},
		{"another commit", installed("own", "2.11.0+cu130", "beef", cuda, nvidia), "is 2.11.0+cu130 commit beef"},
		{"without CUDA", installed("cpu", "2.11.0+cpu", "70d9"), "built without CUDA"},
		{"without NVIDIA's libraries", installed("conda", "2.11.0+cu130", "70d9", cuda), "no folder nvidia/cu13/lib"},
		{"no PyTorch", b.path("cache"), "has no version.py"},
		{"no folder", b.path("nowhere"), "no such folder: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if out, code := b.run("", "--torch", tt.dir); code != 1 || !strings.Contains(out, tt.want) {
				t.Errorf("exit status %d, want 1 and %q:\n%s", code, tt.want, out)
			}
		})
	}
	b.want("build/nvidia/cu13/lib/libcublas.so.13", "cublas") // a refused PyTorch changes nothing
	for _, dir := range []string{good, filepath.Join(good, "lib"), filepath.Dir(good)} {
		if out, code := b.run("", "--torch="+dir); code != 0 {
			t.Fatalf("--torch %s: exit status %d\n%s", dir, code, out)
		}
		b.want("build/libtorch/lib/libtorch_cuda.so", "installed")
		b.want("build/nvidia/cu13/lib/libcublas.so.13", "installed")
	}
	// The wheels replace the links, and the installed PyTorch stays as it is.
	if out, code := b.run(""); code != 0 {
		t.Fatalf("exit status %d\n%s", code, out)
	}
	b.want("build/nvidia/cu13/lib/libcublas.so.13", "cublas")
	b.want("with space/torch/lib/libtorch_cuda.so", "installed")
	b.want("with space/nvidia/cu13/lib/libcublas.so.13", "installed")
}

func TestBuildCUDANeedsSpace(t *testing.T) {
	b := newCUDABuild(t)
	b.write("tools/df", "#!/bin/sh\nprintf 'Filesystem 1024-blocks Used Available\\n/dev/x 9000000 8000000 1000000\\n'\n")
	out, code := b.run(b.path("tools"))
	if code != 1 || !strings.Contains(out, "need 2 GiB") || !strings.Contains(out, "0 GiB are free") || !strings.Contains(out, "OPENMANUS_CACHE") {
		t.Errorf("on a full disk: exit status %d\n%s", code, out)
	}
	if out, code := b.run("", "--what"); code != 1 || !strings.Contains(out, "cuda takes only --torch DIR") {
		t.Errorf("an unknown argument: exit status %d\n%s", code, out)
	}
}
