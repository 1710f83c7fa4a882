package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// child is a server that runs beside this process, so that what it uses is not
// counted here.
type child struct {
	URL    string
	cmd    *exec.Cmd
	cancel context.CancelFunc
	stderr bytes.Buffer
}

// startChild starts openmanus with args, a command that serves something and
// says where on its first line ("serving maze at URL"). stop ends it.
func startChild(ctx context.Context, program []string, args ...string) (*child, error) {
	return startChildIn(ctx, nil, program, args...)
}

// startChildIn is startChild with another environment.
func startChildIn(ctx context.Context, environ, program []string, args ...string) (*child, error) {
	ctx, cancel := context.WithCancel(ctx)
	c := &child{cmd: command(ctx, program[0], append(program[1:len(program):len(program)], args...)...), cancel: cancel}
	c.cmd.Stderr = &c.stderr
	c.cmd.Env = environ
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	words := strings.Fields(line)
	if err != nil || len(words) == 0 || !strings.HasPrefix(words[len(words)-1], "http://") {
		c.stop()
		return nil, fmt.Errorf("%s %s does not say where it serves: %q\n%s", program[0], strings.Join(args, " "), line, &c.stderr)
	}
	c.URL = words[len(words)-1]
	return c, nil
}

// command is a run of openmanus that is interrupted when ctx ends.
func command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	return cmd
}

// stop interrupts the child and waits for its end. How it ends is of no
// interest: it was told to.
func (c *child) stop() {
	c.cancel()
	_ = c.cmd.Wait()
}

// kill ends the child with -9, which gives it no chance to end what it started.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // gone already is right
	c.stop()
}
