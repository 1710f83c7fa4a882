package supervise

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// markKey is the environment variable that marks the processes of a server. If the
// watchdog was killed, the program finds these processes by their marks.
const markKey = "OPENMANUS_SERVER"

// process is one start of a server: its watchdog, and the pipe that stops it when closed.
type process struct {
	cmd      *exec.Cmd
	lifeline *os.File
	mark     string
	stderr   bytes.Buffer  // stderr of the watchdog; read it after exited is closed
	exited   chan struct{} // closed when server and watchdog have ended
	err      error         // how the server ended; read it after exited is closed
}

// launch starts a watchdog and sends o to it. It does not wait for the server.
func launch(watchdog []string, label string, o order) (*process, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	p := &process{lifeline: w, mark: label + "-" + rand.Text(), exited: make(chan struct{})}
	o.Env = append(o.Env[:len(o.Env):len(o.Env)], markKey+"="+p.mark)
	text, err := json.Marshal(o)
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	p.cmd = exec.Command(watchdog[0], append(watchdog[1:len(watchdog):len(watchdog)], WatchdogCommand, label)...)
	p.cmd.Stdin = r
	p.cmd.Stderr = &p.stderr
	p.cmd.WaitDelay = time.Second
	// The watchdog gets a new session, so that Ctrl-C reaches only the program. The
	// program stops the servers after it has closed their instances.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start a watchdog: %w", err), w.Close())
	}
	go p.wait()
	if _, err := w.Write(append(text, '\n')); err != nil {
		p.stop(0)
		return nil, fmt.Errorf("send the watchdog its order: %w", errors.Join(err, p.err))
	}
	return p, nil
}

// wait waits for the watchdog, which ends after its server. If the watchdog was killed,
// wait kills the remaining processes of the server.
func (p *process) wait() {
	defer close(p.exited)
	err := p.cmd.Wait()
	sweep(p.mark)
	state := p.cmd.ProcessState
	switch code := state.ExitCode(); {
	case err != nil && code <= 0:
		p.err = fmt.Errorf("its watchdog ended: %w", err)
	case (code == exitWatchdog || code == exitNoStart) && p.stderr.Len() > 0:
		p.err = errors.New(string(bytes.TrimSpace(p.stderr.Bytes())))
	case code > exitSignal && code < exitSignal+65:
		p.err = fmt.Errorf("it was killed by signal %d (%v)", code-exitSignal, syscall.Signal(code-exitSignal))
	default:
		p.err = fmt.Errorf("it ended with status %d", code)
	}
}

// stop ends the server and returns when all its processes have ended. grace is the time
// that the watchdog gives the server to end. A watchdog that takes much longer is killed.
func (p *process) stop(grace time.Duration) {
	_ = p.lifeline.Close() // the pipe may be closed already
	select {
	case <-p.exited:
		return
	case <-time.After(grace + killFor + 5*time.Second):
	}
	_ = p.cmd.Process.Kill() // the watchdog may have ended
	<-p.exited
}

// sweep kills the processes with a mark, for at most a second. There are such
// processes only if a watchdog was killed.
func sweep(mark string) {
	for range 50 {
		left := Marked(markKey, mark)
		if len(left) == 0 {
			return
		}
		signalEach(left, syscall.SIGKILL)
		time.Sleep(killEvery)
	}
}
