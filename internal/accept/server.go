package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/openmanus/openmanus/internal/process"
)

// server is an openmanus command that serves HTTP in a separate process, so
// that its CPU time and memory are not counted in this process.
type server struct {
	URL    string
	cmd    *exec.Cmd
	cancel context.CancelFunc
	stderr bytes.Buffer
}

// startServer runs program with args and waits for its first line of output, which
// ends with the server's address ("serving maze at URL"). environ is the
// environment of the new process; nil means the environment of this process.
func startServer(ctx context.Context, environ []string, program string, args ...string) (*server, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &server{cmd: process.Command(ctx, program, args...), cancel: cancel}
	s.cmd.Stderr = &s.stderr
	s.cmd.Env = environ
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	words := strings.Fields(line)
	if err != nil || len(words) == 0 || !strings.HasPrefix(words[len(words)-1], "http://") {
		s.stop()
		return nil, fmt.Errorf("%s %s did not print an address on its first line: %q\n%s", program, strings.Join(args, " "), line, &s.stderr)
	}
	s.URL = words[len(words)-1]
	return s, nil
}

// stop interrupts the process and waits for it. The exit status is ignored: an
// interrupted server has no meaningful one.
func (s *server) stop() {
	s.cancel()
	_ = s.cmd.Wait()
}

// kill ends the process with SIGKILL, so that the process cannot stop its children.
func (s *server) kill() {
	_ = s.cmd.Process.Kill() // fails only if the process has already ended
	s.stop()
}
