package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Install contains the options of VenvOf. Checkout is required.
type Install struct {
	Checkout string
	Venv     string    // folder to create; "": .venv in the package's folder, where Launch finds it
	Python   string    // interpreter for the virtual environment; "": the first supported one in PATH
	Output   io.Writer // receives the output of venv and pip
}

// The minor versions of Python 3 that work with the servers' packages.
const (
	oldestPython = 10
	newestPython = 12
)

// pythons are the interpreters to try, in order, if none is given.
var pythons = []string{"python3.11", "python3.10", "python3.12", "python3"}

// VenvOf creates a virtual environment for the server of an environment with Python's
// venv and pip, checks that the server can be imported, and returns the folder. It
// updates an existing virtual environment, and removes a new one if the installation fails.
func VenvOf(ctx context.Context, name string, in Install, environ []string) (string, error) {
	venv, err := venvOf(ctx, name, in, environ)
	if err != nil {
		return "", fmt.Errorf("install %s: %w", name, err)
	}
	return venv, nil
}

func venvOf(ctx context.Context, name string, in Install, environ []string) (string, error) {
	r, ok := recipes[name]
	switch {
	case !ok:
		return "", fmt.Errorf("no recipe; there are recipes for %s", strings.Join(Recipes(), ", "))
	case in.Checkout == "":
		return "", errors.New("no checkout of AgentGym: give its folder")
	case r.venv == nil:
		return "", fmt.Errorf("this server needs more than packages: %s; install it as its README describes, and give its interpreter with python, or its venv", r.more)
	}
	checkout, err := filepath.Abs(in.Checkout)
	if err != nil {
		return "", err
	}
	if err := r.inCheckout(checkout); err != nil {
		return "", err
	}
	venv := filepath.Join(checkout, r.folder, venvName)
	if in.Venv != "" {
		if venv, err = filepath.Abs(in.Venv); err != nil {
			return "", err
		}
	}
	python, err := FindPython(ctx, in.Python, environ)
	if err != nil {
		return "", err
	}
	_, err = os.Stat(venv)
	fresh := errors.Is(err, os.ErrNotExist)
	if err := r.fill(ctx, python, venv, in.Output, environ); err != nil {
		if fresh {
			err = errors.Join(err, os.RemoveAll(venv))
		}
		return "", err
	}
	return venv, r.importable(ctx, checkout, venv, environ)
}

func (r recipe) fill(ctx context.Context, python, venv string, out io.Writer, environ []string) error {
	if err := runTool(ctx, out, environ, python, "-m", "venv", venv); err != nil {
		return fmt.Errorf("make the virtual environment: %w", err)
	}
	args := append([]string{"-m", "pip", "install"}, webPackages...)
	if err := runTool(ctx, out, environ, filepath.Join(venv, "bin", "python"), append(args, r.venv...)...); err != nil {
		return fmt.Errorf("install the packages with pip: %w", err)
	}
	return nil
}

// importable imports the server in Python with the environment variables of a start.
func (r recipe) importable(ctx context.Context, checkout, venv string, environ []string) error {
	for _, v := range r.data {
		if lookup(environ, v.name) == "" {
			return nil // the import needs data, which Launch checks
		}
	}
	c := Command{Env: environ, Set: map[string]string{}}
	r.apply(checkout, &c)
	module, _, _ := strings.Cut(r.module, ":")
	var words strings.Builder
	cmd := exec.CommandContext(ctx, filepath.Join(venv, "bin", "python"), "-c", "import uvicorn, "+module)
	cmd.Dir = c.Dir
	cmd.Env = (&server{o: &Options{Command: c}}).environ()
	cmd.Stdout, cmd.Stderr = &words, &words
	if err := inGroup(cmd).Run(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		lines := strings.Split(strings.TrimSpace(printable(words.String())), "\n")
		return fmt.Errorf("the packages are installed, but the server cannot be imported: %w:%s", err, lastLines(lines))
	}
	return nil
}

// FindPython finds an interpreter of a version that the servers work with: the
// named one, or the first in PATH. It runs each candidate, because version
// managers put placeholders into PATH.
func FindPython(ctx context.Context, named string, environ []string) (string, error) {
	tried := pythons
	if named != "" {
		tried = []string{named}
	}
	var why []string
	for _, name := range tried {
		path, err := lookPath(name, "", lookup(environ, "PATH"))
		if err != nil {
			why = append(why, err.Error())
			continue
		}
		cmd := exec.CommandContext(ctx, path, "-c", "import sys; print(sys.version_info[0], sys.version_info[1])")
		cmd.Env = environ
		out, err := inGroup(cmd).Output()
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		var major, minor int
		if err == nil {
			_, err = fmt.Sscan(string(out), &major, &minor)
		}
		switch {
		case err != nil:
			why = append(why, fmt.Sprintf("%s does not work: %v", name, err))
		case major != 3 || minor < oldestPython || minor > newestPython:
			why = append(why, fmt.Sprintf("%s is version %d.%d", name, major, minor))
		default:
			return path, nil
		}
	}
	return "", fmt.Errorf("found no Python 3.%d to 3.%d, the versions that the servers work with: %s; give an interpreter with python",
		oldestPython, newestPython, strings.Join(why, "; "))
}

// runTool runs a Python tool and writes its output to out.
func runTool(ctx context.Context, out io.Writer, environ []string, path string, args ...string) error {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = environ
	cmd.Stdout, cmd.Stderr = out, out
	err := inGroup(cmd).Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", path, strings.Join(args, " "), err)
	}
	return nil
}

// inGroup puts cmd into a process group. The end of its context then kills the whole group.
func inGroup(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}
