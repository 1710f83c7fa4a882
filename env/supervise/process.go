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

// markKey is the environment variable that identifies the processes of a server. It
// finds them if the watchdog was killed.
const markKey = "OPENMANUS_SERVER"

// process is one start of a server: its watchdog and the pipe that keeps it alive.
type process struct {
	cmd      *exec.Cmd
	lifeline *os.File
	mark     string
	stderr   bytes.Buffer  // of the watchdog; read it after exited
	exited   chan struct{} // closed when server and watchdog are gone
	err      error         // how the server ended; read it after exited
}

// launch starts a watchdog and sends it its order. It does not wait for the server.
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
	// A process group of its own, so that Ctrl-C reaches only the program, which
	// stops the servers after it has closed their instances.
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

// wait waits for the watchdog, which ends after its server, and ends the processes
// that a killed watchdog left behind.
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

// stop ends the server and returns when all its processes have ended. grace is the
// time the watchdog allows the server. A watchdog that takes much longer is killed.
func (p *process) stop(grace time.Duration) {
	_ = p.lifeline.Close() // it may be closed already
	select {
	case <-p.exited:
		return
	case <-time.After(grace + killFor + 5*time.Second):
	}
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.exited
}

// sweep kills the processes with a mark, for at most a second. There are none unless
// a watchdog was killed.
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
