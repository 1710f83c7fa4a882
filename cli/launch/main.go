// Command launch is the beginning of the one-file openmanus. It unpacks the archive behind it (package payload) into the
// user's cache folder at the first start, and executes the program in it. It is statically linked and needs nothing of the
// system, so it can tell what the program lacks there.
//
// openmanus --extract DIR unpacks the archive into the new folder DIR and does not start the program. With
// OPENMANUS_VERIFY=1 every start compares the contents of the unpacked files with their hashes.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/internal/payload"
)

// maxWait limits the wait for another process that unpacks, and the trial of a new program.
const maxWait = 5 * time.Minute

func main() {
	err := run(os.Args, os.Environ())
	if err == nil {
		return
	}
	for line := range strings.SplitSeq(strings.TrimRight(err.Error(), "\n"), "\n") {
		fmt.Fprintf(os.Stderr, "openmanus: %s\n", line)
	}
	code, _ := errext.CodeOf(err)
	os.Exit(int(code))
}

// run executes the program. It returns only if that fails, or after --extract.
func run(args, env []string) error {
	if os.Getuid() != os.Geteuid() || os.Getgid() != os.Getegid() {
		return errext.With(errext.Usage, "remove the setuid and setgid bits of the file",
			errors.New("the one-file openmanus does not run with the rights of another user"))
	}
	exe, err := os.Executable()
	if err != nil {
		return errext.With(errext.Native, "mount /proc", fmt.Errorf("find the running executable: %w", err))
	}
	p, err := payload.Open(exe)
	if errors.Is(err, os.ErrPermission) {
		return errext.With(errext.Disk, "chmod +r "+errext.ShellQuote(exe), err)
	}
	if err != nil {
		return errext.With(errext.Disk, "download the file again; do not strip or edit it", err)
	}
	defer p.Close()
	if len(args) > 1 && args[1] == "--extract" {
		return extract(p, args[2:])
	}
	if preloaded := os.Getenv("LD_PRELOAD"); preloaded != "" {
		fmt.Fprintf(os.Stderr, "openmanus: LD_PRELOAD loads %s into the program\n", preloaded)
	}
	in, err := install(p)
	if err != nil {
		return err
	}
	env, err = in.Environ(env, exe)
	if err != nil {
		return err
	}
	program := filepath.Join(in.Dir, "bin", "openmanus")
	return startError(program, syscall.Exec(program, args, env))
}

// extract unpacks the archive into a folder.
func extract(p *payload.Payload, args []string) error {
	if len(args) != 1 {
		return errext.With(errext.Usage, "", errors.New("--extract needs one argument, the folder to create"))
	}
	if _, err := p.Extract(args[0]); err != nil {
		if !errors.Is(err, os.ErrExist) {
			err = errors.Join(err, os.RemoveAll(args[0]))
		}
		return diskError(err)
	}
	fmt.Fprintf(os.Stderr, "openmanus: the program is %s\n", filepath.Join(args[0], "bin", "openmanus"))
	return nil
}

// install returns the unpacked program.
func install(p *payload.Payload) (*payload.Installed, error) {
	dir, err := payload.CacheDir(os.Getenv)
	if err != nil {
		return nil, errext.With(errext.Disk, "", err)
	}
	// Opening without creating works on a read-only file system.
	if c, err := payload.OpenCache(dir, false); err == nil {
		in, err := c.Find(p, os.Getenv("OPENMANUS_VERIFY") == "1")
		if err != nil || in != nil {
			return in, diskError(err)
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, diskError(err)
	}
	c, err := payload.OpenCache(dir, true)
	if err != nil {
		return nil, diskError(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxWait)
	defer cancel()
	say := func(text string) { fmt.Fprintf(os.Stderr, "openmanus: %s\n", text) }
	in, err := c.Install(ctx, p, say, func(dir string) error { return try(ctx, dir) })
	return in, diskError(err)
}

// try starts the unpacked program and lets it load its libraries, so that a system that cannot run it gets a
// reason.
func try(ctx context.Context, dir string) error {
	program := filepath.Join(dir, "bin", "openmanus")
	cmd := exec.CommandContext(ctx, program, "version", "--libraries")
	cmd.Stdin = os.Stdin // without it, the command needs /dev/null
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	if err := startError(program, err); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return err
	}
	said := strings.TrimSpace(string(out))
	if strings.Contains(said, "GLIBC_") { // the message of the dynamic linker for a missing version
		return errext.With(errext.Native, "use a newer system (Debian 12, Ubuntu 22.04, RHEL 9) or a container",
			errors.New("this system's C library is too old: the program needs glibc 2.34 or newer"))
	}
	return errext.With(errext.Native, "", fmt.Errorf("the program does not run on this system: %w: %s", err, said))
}

// startError explains why a program could not be executed.
func startError(program string, err error) error {
	code, hint := errext.Native, ""
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		code, hint = errext.Disk, "its file system may be mounted noexec; set "+payload.Variable+" to a folder on another one"
	case errors.Is(err, syscall.ENOENT):
		hint = "the system has no glibc (/lib64/ld-linux-x86-64.so.2), as Alpine; use a distribution with glibc 2.34 or newer, or a container"
	case errors.Is(err, syscall.ENOEXEC):
		hint = "it needs an x86-64 processor"
	}
	if p := new(os.PathError); errors.As(err, &p) {
		err = p.Err // its message names the program
	}
	return errext.With(code, hint, fmt.Errorf("execute %s: %w", program, err))
}

// diskError adds a hint to the error of writing files.
func diskError(err error) error {
	hint := ""
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		hint = "free space, or set " + payload.Variable + " to a folder with more space"
	case errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR):
		hint = "set " + payload.Variable + " to a folder that you can write to"
	}
	if _, ok := errext.CodeOf(err); ok {
		return err
	}
	return errext.With(errext.Disk, hint, err)
}
