package supervise

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// WatchdogCommand is the first argument with which this program is a watchdog.
const WatchdogCommand = "server-watchdog"

// order is what a watchdog is told, as one line of JSON, by the pipe whose end
// is the end of its server. It does not come by arguments or environment:
// these are everybody's to read, and the server's LD_LIBRARY_PATH must not
// become the watchdog's.
type order struct {
	Args     []string      `json:"args"` // Args[0] is a path
	Dir      string        `json:"dir"`
	Env      []string      `json:"env"`
	Log      string        `json:"log"`
	LogBytes int64         `json:"log_bytes"`
	Grace    time.Duration `json:"grace_ns"` // between SIGTERM and SIGKILL
}

// The exit codes of a watchdog beside those of its server.
const (
	exitNoStart  = 127 // the server could not be started, as a shell has it
	exitSignal   = 128 // plus the signal that ended the server
	exitWatchdog = 125 // the watchdog had no order or no log
)

// The pauses of a watchdog that waits for processes to end.
const (
	killEvery = 20 * time.Millisecond
	// killFor is how long it goes on killing: a process in the kernel, on a
	// dead network disk for one, cannot be ended by anybody.
	killFor = 30 * time.Second
	// lateWords is how long output is still read when all processes are gone.
	lateWords = time.Second
)

// Watchdog runs this process as a watchdog if args say so: the first line of
// main, which then ends with the returned code. lifeline is standard input.
func Watchdog(args []string, lifeline io.Reader, stderr io.Writer) (code int, ok bool) {
	if len(args) < 2 || args[1] != WatchdogCommand {
		return 0, false
	}
	code, err := watch(lifeline)
	if err != nil {
		fmt.Fprintf(stderr, "openmanus %s: %v\n", WatchdogCommand, err)
	}
	return code, true
}

// prSetChildSubreaper is PR_SET_CHILD_SUBREAPER of prctl(2).
const prSetChildSubreaper = 36

func watch(lifeline io.Reader) (int, error) {
	// The kernel ends the server when the thread that started it ends.
	runtime.LockOSThread()
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); errno != 0 {
		return exitWatchdog, fmt.Errorf("become the parent of orphans: %w", errno)
	}
	// Caught, not ignored: what is ignored stays so in the server.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	in := bufio.NewReader(lifeline)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return exitWatchdog, fmt.Errorf("this is a part of openmanus that it starts itself: no order came: %w", err)
	}
	var o order
	if err := json.Unmarshal(line, &o); err != nil || len(o.Args) == 0 {
		return exitWatchdog, fmt.Errorf("no order that can be read: %w", err)
	}
	released := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, in) // ends when the other side does, however it does
		close(released)
	}()

	log, err := openLog(o.Log, o.LogBytes)
	if err != nil {
		return exitWatchdog, err
	}
	fmt.Fprintf(log, "%sstart %s: %s\n", logHead, time.Now().UTC().Format(time.RFC3339), strings.Join(o.Args, " "))
	c, err := startChild(o, log)
	if err != nil {
		fmt.Fprintf(log, "%s%v\n", logHead, err)
		return exitNoStart, errors.Join(err, log.close())
	}
	code, died := 0, false
	select {
	case <-released:
	case <-signals:
	case code = <-c.status:
		died = true
	}
	c.end(o.Grace)
	if !died {
		select {
		case code = <-c.status:
		default: // it cannot be killed
		}
	}
	select {
	case <-c.silent:
	case <-time.After(lateWords):
	}
	fmt.Fprintf(log, "%send %s: status %d\n", logHead, time.Now().UTC().Format(time.RFC3339), code)
	return code, log.close()
}

// child is the server under a watchdog, with everything that came of it.
type child struct {
	pid    int
	status chan int      // gets the exit code of the server itself
	gone   chan struct{} // closed when no process is left
	silent chan struct{} // closed when nobody can write any more
}

func startChild(o order, log io.Writer) (*child, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	pid, err := syscall.ForkExec(o.Args[0], o.Args, &syscall.ProcAttr{
		Dir:   o.Dir,
		Env:   o.Env,
		Files: []uintptr{null.Fd(), w.Fd(), w.Fd()},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		_ = r.Close() // nobody writes
		return nil, fmt.Errorf("start %s in %s: %w", filepath.Base(o.Args[0]), o.Dir, err)
	}
	c := &child{pid: pid, status: make(chan int, 1), gone: make(chan struct{}), silent: make(chan struct{})}
	go func() {
		defer close(c.silent)
		defer r.Close()
		_, _ = io.Copy(log, r) // the log never fails, and the end of the pipe is no error
	}()
	go c.reap()
	return c, nil
}

// reap collects every process that ends below this one until there is none.
func (c *child) reap() {
	defer close(c.gone)
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // ECHILD: there is none
			return
		case pid == c.pid && ws.Exited():
			c.status <- ws.ExitStatus()
		case pid == c.pid && ws.Signaled():
			c.status <- exitSignal + int(ws.Signal())
		}
	}
}

// end asks all processes to end, and after the grace makes them.
func (c *child) end(grace time.Duration) {
	signalEach(descendants(os.Getpid()), syscall.SIGTERM)
	select {
	case <-c.gone:
		return
	case <-time.After(grace):
	}
	deadline := time.Now().Add(killFor)
	for time.Now().Before(deadline) {
		// Again and again, since a process may start another between the look
		// and the shot.
		signalEach(descendants(os.Getpid()), syscall.SIGKILL)
		select {
		case <-c.gone:
			return
		case <-time.After(killEvery):
		}
	}
}
