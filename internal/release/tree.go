package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// glibc is the oldest glibc that a release runs on.
const glibc = "2.34"

// libraries are the native libraries in the build folder.
var libraries = []string{
	"lib/libopenmanus_torch.so", "lib/libcgotorch.so",
	"libtorch/lib/libtorch_cpu.so", "libtorch/lib/libc10.so", "libtorch/lib/libgomp.so.1",
	"libtorch/lib/libcudart.so.13", "libtorch/lib/libcupti.so.13",
}

// runtimes are the libraries of the compiler, which torch/load.c loads on systems without them.
var runtimes = []string{"libstdc++.so.6", "libgcc_s.so.1"}

// where libraries and documents are in the tree.
const (
	libDir = "lib/openmanus"
	docDir = "share/doc/openmanus"
)

// documents are the outputs of the program that the tree contains.
var documents = []struct {
	args []string
	file string
}{
	{[]string{"completion", "bash"}, "share/bash-completion/completions/openmanus"},
	{[]string{"completion", "zsh"}, "share/zsh/site-functions/_openmanus"},
	{[]string{"completion", "fish"}, "share/fish/vendor_completions.d/openmanus.fish"},
	{[]string{"man"}, "share/man/man1/openmanus.1"},
}

// tree writes all files below root.
func (in *inputs) tree(root string) error {
	program := filepath.Join(root, "bin/openmanus")
	if err := copyFile(program, in.program, 0o755); err != nil {
		return err
	}
	if err := setRunPath(program, "$ORIGIN/../"+libDir); err != nil {
		return err
	}
	if err := checkGlibc(program, glibc); err != nil {
		return err
	}
	for _, l := range libraries {
		if err := in.library(root, l); err != nil {
			return err
		}
	}
	for _, name := range runtimes {
		if err := bundle(root, name); err != nil {
			return err
		}
	}
	for _, d := range documents {
		out, err := exec.Command(program, d.args...).Output()
		if err != nil {
			return fmt.Errorf("%s %s: %w", program, strings.Join(d.args, " "), err)
		}
		if err := writeFile(filepath.Join(root, d.file), out); err != nil {
			return err
		}
	}
	return in.licenses(root)
}

// library copies a native library without its symbols for debugging, which take a fifth of its size. The libraries of NVIDIA
// stay as they are: their licence allows only unmodified copies (section 2.3).
func (in *inputs) library(root, name string) error {
	to := filepath.Join(root, libDir, filepath.Base(name))
	if err := copyFile(to, filepath.Join(in.build, name), 0o644); err != nil {
		return err
	}
	switch filepath.Base(name) {
	case "libcudart.so.13", "libcupti.so.13": // have no run path and need only glibc
	default:
		if err := strip(to); err != nil {
			return err
		}
		if err := setRunPath(to, "$ORIGIN"); err != nil {
			return err
		}
	}
	return checkGlibc(to, glibc)
}

// bundle copies a library of the compiler.
func bundle(root, name string) error {
	out, err := exec.Command("g++", "-print-file-name="+name).Output()
	if err != nil {
		return fmt.Errorf("find %s: %w", name, err)
	}
	from := strings.TrimSpace(string(out))
	if !filepath.IsAbs(from) {
		return fmt.Errorf("g++ does not know where %s is; install the package of the library", name)
	}
	to := filepath.Join(root, libDir, "bundled-"+name)
	if err := copyFile(to, from, 0o644); err != nil {
		return err
	}
	return strip(to)
}

func strip(file string) error {
	if out, err := exec.Command("strip", "--strip-unneeded", file).CombinedOutput(); err != nil {
		return fmt.Errorf("strip %s (install binutils): %w: %s", file, err, out)
	}
	return nil
}

func copyFile(to, from string, mode os.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		_ = out.Close() // the first error counts
		return err
	}
	return out.Close()
}

func writeFile(path string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}
