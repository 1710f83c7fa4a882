// Command release makes the files that users install: the tree of the program and its libraries, the archive of the tree, and
// the one-file executable. build.sh calls it with the files that it has built.
//
//	release tree  writes the tree into a folder (./build.sh install)
//	release dist  writes the archive, the executable, licences, the SPDX list and SHA256SUMS into a folder (./build.sh release)
//
// The same inputs and the same --time give the same bytes.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// inputs are the files that a release consists of.
type inputs struct {
	program  string   // the program
	launcher string   // the static launcher (cli/launch); only for dist
	build    string   // folder with lib and libtorch/lib
	wheels   []string // Python wheels that libtorch/lib was unpacked from
	license  string   // the licence of openmanus
	version  string
	time     time.Time
}

func main() {
	syscall.Umask(0o022) // the files are for all users, whatever the umask of the builder
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("the first argument must be tree or dist")
	}
	var in inputs
	var seconds int64
	f := flag.NewFlagSet("release "+args[0], flag.ContinueOnError)
	f.StringVar(&in.program, "program", "", "the `file` of the program")
	f.StringVar(&in.launcher, "launcher", "", "the `file` of the launcher")
	f.StringVar(&in.build, "build", "build", "the `folder` with the native libraries")
	f.Func("wheel", "a wheel `file` that native libraries come from; repeatable", func(s string) error {
		in.wheels = append(in.wheels, s)
		return nil
	})
	f.StringVar(&in.license, "license", "LICENSE", "the `file` with the licence of openmanus")
	f.StringVar(&in.version, "version", "", "the version in names")
	f.Int64Var(&seconds, "time", 0, "Unix `time` of all files")
	to := f.String("to", "", "the `folder` to write to")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	if in.program == "" || in.version == "" || *to == "" {
		return fmt.Errorf("--program, --version and --to are needed")
	}
	in.time = time.Unix(seconds, 0).UTC()
	switch args[0] {
	case "tree":
		return in.install(*to)
	case "dist":
		if in.launcher == "" {
			return fmt.Errorf("--launcher is needed")
		}
		return in.dist(*to)
	}
	return fmt.Errorf("unknown command %q, want tree or dist", args[0])
}

// name is the name of the archive's folder and the beginning of the names in dist.
func (in *inputs) name() string { return "openmanus-" + in.version + "-linux-amd64" }

// install writes the tree into the folder prefix. Each file replaces an earlier one at once, so running programs
// keep theirs.
func (in *inputs) install(prefix string) error {
	if err := os.MkdirAll(prefix, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(prefix, ".openmanus-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := in.tree(tmp); err != nil {
		return err
	}
	return filepath.WalkDir(tmp, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(tmp, path)
		if err != nil || name == "." {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(prefix, name), 0o755)
		}
		return os.Rename(path, filepath.Join(prefix, name))
	})
}
