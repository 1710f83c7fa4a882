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

// WatchdogCommand is the first argument that makes this program a watchdog.
const WatchdogCommand = "server-watchdog"

// order contains the settings of a watchdog. The program writes it as one line of JSON to
// the watchdog's standard input. Arguments would be visible to other users, and with
// environment variables the server's LD_LIBRARY_PATH would apply to the watchdog.
type order struct {
	Args     []string      `json:"args"` // Args[0] is a path
	Dir      string        `json:"dir"`
	Env      []string      `json:"env"`
	Log      string        `json:"log"`
	LogBytes int64         `json:"log_bytes"`
	Grace    time.Duration `json:"grace_ns"` // time between SIGTERM and SIGKILL
}

// A watchdog has these exit codes in addition to those of its server.
const (
	exitNoStart  = 127 // the server could not be started, as in shells
	exitSignal   = 128 // 128 plus the number of the signal that ended the server
	exitWatchdog = 125 // the watchdog could not read its order or open the log
)

// These constants limit how a watchdog waits for processes to end.
const (
	killEvery = 20 * time.Millisecond
	// killFor limits the attempts to kill processes: a process that is blocked in the
	// kernel, as on a dead network disk, cannot be killed.
	killFor = 30 * time.Second
	// drainLimit limits the time to read remaining output after all processes have ended.
	drainLimit = time.Second
)

// Watchdog runs this process as a watchdog if args[1] is WatchdogCommand. main calls
// Watchdog first, and exits with the status code if ok is true. lifeline is standard input.
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
	// The kernel kills the server when the thread that started it exits.
	runtime.LockOSThread()
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); errno != 0 {
		return exitWatchdog, fmt.Errorf("become the parent of orphans: %w", errno)
	}
	// Catch signals, because the server would inherit ignored signals.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	in := bufio.NewReader(lifeline)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return exitWatchdog, fmt.Errorf("no order received (openmanus itself starts this command): %w", err)
	}
	var o order
	if err := json.Unmarshal(line, &o); err != nil || len(o.Args) == 0 {
		return exitWatchdog, fmt.Errorf("invalid order: %w", err)
	}
	released := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, in) // returns when the program closes the pipe or ends
		close(released)
	}()

	log := &serverLog{path: o.Log, max: max(o.LogBytes/2, 4096)}
	if err := log.open(); err != nil {
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
		default: // the process cannot be killed
		}
	}
	select {
	case <-c.drained:
	case <-time.After(drainLimit):
	}
	fmt.Fprintf(log, "%send %s: status %d\n", logHead, time.Now().UTC().Format(time.RFC3339), code)
	return code, log.close()
}

// child is the server of a watchdog and all its descendants.
type child struct {
	pid     int
	status  chan int      // receives the exit code of the server
	gone    chan struct{} // closed when all processes have ended
	drained chan struct{} // closed when all writers of the output have closed it
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
		_ = r.Close() // the pipe has no writer
		return nil, fmt.Errorf("start %s in %s: %w", filepath.Base(o.Args[0]), o.Dir, err)
	}
	c := &child{pid: pid, status: make(chan int, 1), gone: make(chan struct{}), drained: make(chan struct{})}
	go func() {
		defer close(c.drained)
		defer r.Close()
		_, _ = io.Copy(log, r) // writing to the log never fails
	}()
	go c.reap()
	return c, nil
}

// reap waits until all descendants of this process have ended.
func (c *child) reap() {
	defer close(c.gone)
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // ECHILD: all processes have ended
			return
		case pid == c.pid && ws.Exited():
			c.status <- ws.ExitStatus()
		case pid == c.pid && ws.Signaled():
			c.status <- exitSignal + int(ws.Signal())
		}
	}
}

// end sends SIGTERM to all processes, and SIGKILL after the grace period.
func (c *child) end(grace time.Duration) {
	signalEach(descendants(os.Getpid()), syscall.SIGTERM)
	select {
	case <-c.gone:
		return
	case <-time.After(grace):
	}
	deadline := time.Now().Add(killFor)
	for time.Now().Before(deadline) {
		// Repeat this, since a process may start another one before it is killed.
		signalEach(descendants(os.Getpid()), syscall.SIGKILL)
		select {
		case <-c.gone:
			return
		case <-time.After(killEvery):
		}
	}
}
