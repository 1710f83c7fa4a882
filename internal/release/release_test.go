package main

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openmanus/openmanus/internal/payload"
)

func TestClassify(t *testing.T) {
	const bsd = "Redistribution and use in source and binary forms, with or without\n> modification, are permitted provided that"
	for text, want := range map[string]string{
		bsd:                             "BSD-2-Clause",
		bsd + "... Neither the name of": "BSD-3-Clause",
		"Permission is hereby granted, free of charge, to any person obtaining a copy\nof this software": "MIT",
		"Apache License\n  Version 2.0":                                          "Apache-2.0",
		"Mozilla Public License, version 2.0 ... the GNU General Public License": "MPL-2.0",
		"GNU GENERAL PUBLIC LICENSE":                                             "GPL",
		"Do as you like.":                                                        "",
	} {
		got, err := classify(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, error %v, want %q", text, got, err, want)
		}
	}
}

func TestNewer(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{{"2.34", "2.34", false}, {"2.4", "2.34", false}, {"2.36", "2.34", true}, {"2.2.5", "2.34", false}, {"3", "2.34", true}, {"PRIVATE", "2.34", true}} {
		if got := newer(tt.a, tt.b); got != tt.want {
			t.Errorf("newer(%s, %s) = %t", tt.a, tt.b, got)
		}
	}
}

// TestPackIsReproducible checks that an archive does not depend on times, modes and the order in which files were made.
func TestPackIsReproducible(t *testing.T) {
	in := inputs{version: "1", time: time.Unix(1e9, 0).UTC()}
	var archives [2]bytes.Buffer
	for i, names := range [][]string{{"bin/a", "lib/b", "lib/c"}, {"lib/c", "lib/b", "bin/a"}} {
		root := t.TempDir()
		for _, name := range names {
			if err := writeFile(filepath.Join(root, name), []byte(strings.Repeat(name, 1e5))); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Join(root, name), 0o600+os.FileMode(4*i)); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(filepath.Join(root, name), time.Now(), time.Unix(int64(i), 0)); err != nil {
				t.Fatal(err)
			}
		}
		if size, err := in.pack(&archives[i], root); err != nil || size != 15e5 {
			t.Fatalf("%d bytes, error %v", size, err)
		}
	}
	if !bytes.Equal(archives[0].Bytes(), archives[1].Bytes()) {
		t.Error("the archives differ")
	}
}

// TestSetRunPath checks that a file's run path is replaced, and what is not possible.
func TestSetRunPath(t *testing.T) {
	dir := t.TempDir()
	source, library := filepath.Join(dir, "a.c"), filepath.Join(dir, "a.so")
	if err := os.WriteFile(source, []byte("int lib(void) { return 1; }"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, flag, path, want string }{
		{"replaced", "-Wl,-rpath,/build/folder", "$ORIGIN", ""},
		{"longer", "-Wl,-rpath,/a", "$ORIGIN", "shorter"},
		{"none", "-Wl,-z,defs", "$ORIGIN", "none"},
		{"shared text", "-Wl,-rpath,/build/lib,-soname,lib", "$ORIGIN", "shares its text"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if out, err := exec.Command("gcc", "-shared", "-fPIC", tt.flag, "-o", library, source).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			err := setRunPath(library, tt.path)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %s", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			f, err := elf.Open(library)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if got, err := f.DynString(elf.DT_RPATH); err != nil || !slices.Equal(got, []string{tt.path}) {
				t.Errorf("run path %q, error %v", got, err)
			}
			if b, err := os.ReadFile(library); err != nil || bytes.Contains(b, []byte("/build/folder")) {
				t.Errorf("the old path is still in the file, error %v", err)
			}
		})
	}
}

// TestRelease makes a release of this tree and uses it where the tree, Go's module cache and the network are hidden.
func TestRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "build/lib/libopenmanus_torch.so")); err != nil {
		t.Skip("needs the native libraries: run ./build.sh native")
	}
	dir := t.TempDir()
	in := inputs{program: filepath.Join(dir, "openmanus"), launcher: filepath.Join(dir, "launch"), version: "0.0.0-test"}
	tool, dist := filepath.Join(dir, "release"), filepath.Join(dir, "dist")
	args := []string{"dist", "--program", in.program, "--launcher", in.launcher, "--version", in.version, "--time", "1000000000", "--to", dist}
	for _, w := range wheels(t, root) {
		args = append(args, "--wheel", w)
	}
	goBuild(t, root, "1", in.program, ".")
	goBuild(t, root, "0", in.launcher, "./cli/launch")
	goBuild(t, root, "0", tool, "./internal/release") // a test binary with the race detector compresses ten times slower
	cmd := exec.Command(tool, args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	one := filepath.Join(dist, in.name())
	t.Run("files", func(t *testing.T) { checkFiles(t, &in, dist) })
	t.Run("memory without libtorch", func(t *testing.T) {
		// A child's peak includes that of its parent before exec, so the parent is a small program, not this test.
		out, err := exec.Command("python3", "-c", `import resource, subprocess, sys
subprocess.run([sys.argv[1], "version"], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)`, in.program).Output()
		if err != nil {
			t.Fatal(err)
		}
		if kb, err := strconv.Atoi(strings.TrimSpace(string(out))); err != nil || kb > 40<<10 {
			t.Errorf("openmanus version took %s KB (%v), want at most 40 MB", out, err)
		}
	})
	t.Run("run paths", func(t *testing.T) { checkRunPaths(t, one, root) })
	t.Run("trains elsewhere", func(t *testing.T) {
		if out, err := exec.Command("unshare", "--mount", "--net", "true").CombinedOutput(); err != nil {
			t.Skipf("needs namespaces, which root can make: %v: %s", err, out)
		}
		trainElsewhere(t, one, root)
	})
}

// wheels returns the wheels of third_party/libtorch.lock in the cache of build.sh.
func wheels(t *testing.T, root string) []string {
	t.Helper()
	base, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(base, "openmanus")
	if dir := os.Getenv(payload.Variable); dir != "" {
		cache = dir
	}
	lock, err := os.ReadFile(filepath.Join(root, "third_party/libtorch.lock"))
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for line := range strings.Lines(string(lock)) {
		name, _, _ := strings.Cut(line, "==")
		_, sum, _ := strings.Cut(strings.TrimSpace(line), "sha256:")
		if wheelLicenses[strings.ReplaceAll(name, "-", "_")] == "" {
			continue
		}
		found, err := filepath.Glob(filepath.Join(cache, "sha256", sum, "*.whl"))
		if err != nil || len(found) != 1 {
			t.Skipf("needs the wheels of third_party/libtorch.lock in %s: run ./build.sh native", cache)
		}
		files = append(files, found[0])
	}
	return files
}

func goBuild(t *testing.T, root, cgo, out, pkg string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, pkg)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED="+cgo)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// checkFiles checks names, sizes, sums and the lists of components.
func checkFiles(t *testing.T, in *inputs, dist string) {
	cmd := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	cmd.Dir = dist
	if out, err := cmd.CombinedOutput(); err != nil || strings.Count(string(out), ": OK") != 4 {
		t.Errorf("%v\n%s", err, out)
	}
	info, err := os.Stat(filepath.Join(dist, in.name()))
	if err != nil || info.Size() > 130e6 || info.Mode().Perm() != 0o755 {
		t.Errorf("%d bytes with mode %v, want at most 130 MB; error %v", info.Size(), info.Mode(), err)
	}
	if err := checkStatic(filepath.Join(dist, in.name())); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(filepath.Join(dist, "THIRD_PARTY_LICENSES"))
	if err != nil {
		t.Fatal(err)
	}
	var spdx spdxDocument
	b, err := os.ReadFile(filepath.Join(dist, in.name()+".spdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &spdx); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"torch", "nvidia_cuda_runtime", "github.com/wangkuiyi/gotorch", "go", "gcc-runtime-libraries"} {
		if !bytes.Contains(text, []byte("\n  "+name+" ")) {
			t.Errorf("THIRD_PARTY_LICENSES lacks %s", name)
		}
		if !slices.ContainsFunc(spdx.Packages, func(p spdxPackage) bool { return p.Name == name && p.Version != "" && p.Declared != "" }) {
			t.Errorf("the SPDX list lacks %s", name)
		}
	}
}

// checkRunPaths checks that no run path names a folder of this machine, and that every library is in the tree.
func checkRunPaths(t *testing.T, one, root string) {
	dir := filepath.Join(t.TempDir(), "tree")
	if out, err := exec.Command(one, "--extract", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "lib/openmanus/*"))
	if err != nil || len(files) != len(libraries)+len(runtimes) {
		t.Fatalf("libraries %q, error %v", files, err)
	}
	for _, file := range append(files, filepath.Join(dir, "bin/openmanus")) {
		f, err := elf.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		rpath, err1 := f.DynString(elf.DT_RPATH)
		runpath, err2 := f.DynString(elf.DT_RUNPATH)
		if err := errors.Join(err1, err2, f.Close()); err != nil {
			t.Fatal(err)
		}
		if len(runpath) > 0 || len(rpath) > 0 && rpath[0] != "$ORIGIN" && rpath[0] != "$ORIGIN/../lib/openmanus" {
			t.Errorf("%s has the run paths %q and %q", file, rpath, runpath)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if name := filepath.Base(file); name == "libcudart.so.13" || name == "libcupti.so.13" {
			if want, err := os.ReadFile(filepath.Join(root, "build/libtorch/lib", name)); err != nil || !bytes.Equal(b, want) {
				t.Errorf("%s was modified, which its licence forbids; error %v", name, err)
			}
		}
		for _, path := range []string{root + "/", "/mod/github.com/wangkuiyi"} {
			if bytes.Contains(b, []byte(path)) {
				t.Errorf("%s contains the path %s", file, path)
			}
		}
	}
}

// trainElsewhere trains with the one file in namespaces without the source folder, Go's module cache and the network. Other
// libraries of the same names in LD_LIBRARY_PATH must not be loaded.
func trainElsewhere(t *testing.T, one, root string) {
	out, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "openmanus")
	if err := os.Rename(one, file); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf(`set -e
mount -t tmpfs tmpfs %q
mount -t tmpfs tmpfs %q
ip link set lo up
cd %q
mkdir other
for name in libopenmanus_torch libcgotorch libtorch_cpu libc10; do echo not a library >other/$name.so; done
env -i HOME="$PWD" PATH=/usr/bin:/bin OMP_NUM_THREADS=1 LD_LIBRARY_PATH="$PWD/other" ./openmanus train \
  --set model.fresh.layers=1 --set model.fresh.hidden_size=32 --set model.fresh.intermediate_size=64 --set model.fresh.heads=2 \
  --set model.fresh.kv_heads=1 --set model.fresh.walks=0 --set sft.epochs=1 --set trainer.total_steps=1 --set env.maze.tasks=18,17 \
  --set env.maze.val_tasks=16 --set env.maze.max_turns=2 --set data.train_batch_size=2 --set rollout.group_size=2 \
  --set rollout.val.group_size=1 --set rollout.max_new_tokens=8
env -i HOME="$PWD" PATH=/usr/bin:/bin ./openmanus cache list --json
`, root, strings.TrimSpace(string(out)), dir)
	cmd := exec.Command("unshare", "--mount", "--net", "bash", "-c", script)
	text, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(text, []byte(`"in_use":true`)) {
		t.Fatalf("%v\n%s", err, text)
	}
	metrics, err := filepath.Glob(filepath.Join(dir, "runs/*/metrics.jsonl"))
	if err != nil || len(metrics) != 1 {
		t.Errorf("metrics %q, error %v\n%s", metrics, err, text)
	}
}
