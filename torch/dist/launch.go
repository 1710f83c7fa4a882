package dist

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/openmanus/openmanus/internal/freeport"
)

// Command is the program that Launch starts as every rank.
type Command struct {
	Path           string   // file of the program; "": Args[0]
	Args           []string // name of the program, and arguments
	Dir            string   // "": that of this process
	Env            []string // environment without the variables of the group, as os.Environ returns it
	Stdout, Stderr io.Writer

	// Grace is the time between the request to end (SIGTERM) and SIGKILL.
	Grace time.Duration
	// FirstGrace is the time that rank 0 has to end after another rank has failed; 0: Grace. Rank 0 then gets SIGUSR1 every second,
	// and no SIGTERM, which would stand for an interrupt by the user. It notices the failure at its next collective, and can then
	// save its work. The signal tells it to end if it waits for the others to join.
	FirstGrace time.Duration
	// Failed is called with the first failure of a rank while others still run; nil: not called.
	Failed func(err error)
}

// Launch starts c as n ranks on this machine, sends them the signals that it receives, and waits for their ends. status is that
// of the first rank that failed, 128 plus the number of the signal if a signal ended it, and 0 if all succeeded. A rank that
// another process killed (SIGKILL) counts as the first, since others may notice its loss and end before it is reported. When a
// rank fails or ctx ends, the other ranks are asked to end, and after c.Grace killed, except for rank 0 after the failure of another
// rank, which is killed after c.FirstGrace. They are killed if this process dies.
//
// Rank 0 writes to c.Stdout and c.Stderr. All output of the other ranks goes to c.Stderr, in lines that begin with the rank. The
// ranks have no input, and a process group each, so that Ctrl-C in a terminal reaches them only through signals.
func Launch(ctx context.Context, n int, c Command, signals <-chan os.Signal) (status int, err error) {
	if n < 1 {
		return 0, fmt.Errorf("dist: launch %d processes; at least 1 is needed", n)
	}
	port, err := freeport.Find(1)
	if err != nil {
		return 0, fmt.Errorf("dist: %w", err)
	}
	runtime.LockOSThread() // Pdeathsig is sent when the thread that started the process ends
	defer runtime.UnlockOSThread()

	ends := make(chan end, n)
	var ranks []*exec.Cmd
	var kill, killFirst <-chan time.Time // of the ranks from 1 on, and of rank 0
	var failed error                     // of the rank that determines status
	killing := map[bool]bool{}           // whether Launch has sent SIGKILL to rank 0 (true) and to the others (false)
	signal := func(s os.Signal, some []*exec.Cmd) {
		for _, r := range some {
			_ = r.Process.Signal(s) // fails if the rank has ended
		}
	}
	stop := func() {
		if kill == nil {
			signal(syscall.SIGTERM, ranks)
			kill, killFirst = time.After(c.Grace), time.After(c.Grace)
		}
	}
	tell := time.NewTicker(time.Second) // repeated, because rank 0 may not handle the signal yet
	defer tell.Stop()
	saving := false // rank 0 has FirstGrace
	stopOthers := func() {
		if c.FirstGrace == 0 {
			stop()
		} else if kill == nil {
			saving = true
			signal(syscall.SIGTERM, ranks[1:])
			signal(syscall.SIGUSR1, ranks[:1])
			kill, killFirst = time.After(c.Grace), time.After(c.FirstGrace)
		}
	}
	var outputs sync.Mutex // held while a line of a rank other than 0 is written
	for r := range n {
		cmd := c.rank(Env{Rank: r, Size: n, LocalRank: r, LocalSize: n, Host: "127.0.0.1", Port: port}, &outputs)
		if err = cmd.Start(); err != nil {
			err = fmt.Errorf("dist: start rank %d: %w", r, err)
			stop()
			break
		}
		ranks = append(ranks, cmd)
		go func() { ends <- end{r, cmd.Wait()} }()
	}
	done := ctx.Done()
	for running := len(ranks); running > 0; {
		select {
		case s := <-signals:
			signal(s, ranks)
		case <-done:
			done = nil
			err = errors.Join(err, context.Cause(ctx))
			kill, saving = nil, false // rank 0 has no more time than the others
			stop()
		case <-tell.C:
			if saving {
				signal(syscall.SIGUSR1, ranks[:1])
			}
		case <-kill:
			killing[false] = true
			signal(syscall.SIGKILL, ranks[1:])
		case <-killFirst:
			killing[true] = true
			signal(syscall.SIGKILL, ranks[:1])
		case e := <-ends:
			running--
			if f, ok := ranks[e.rank].Stderr.(*prefixed); ok {
				f.flush()
			}
			if e.err != nil && (status == 0 || e.status() == killed && status != killed && !killing[e.rank == 0]) {
				status = e.status()
				failed = fmt.Errorf("dist: rank %d of %d (process %d) ended: %w", e.rank, n, ranks[e.rank].Process.Pid, e.err)
				if kill == nil && running > 0 && c.Failed != nil {
					c.Failed(failed)
				}
				if e.rank == 0 {
					stop()
				} else {
					stopOthers()
				}
			}
		}
	}
	return status, errors.Join(err, failed)
}

// rank returns the command of one rank.
func (c Command) rank(env Env, outputs *sync.Mutex) *exec.Cmd {
	cmd := exec.Command(cmp.Or(c.Path, c.Args[0]))
	cmd.Args, cmd.Dir = c.Args, c.Dir
	cmd.Env = slices.Concat(c.Env, env.Variables())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = c.Grace // a child of the rank may keep its output open
	cmd.Stdout, cmd.Stderr = c.Stdout, c.Stderr
	if env.Rank > 0 {
		p := &prefixed{mu: outputs, w: c.Stderr, prefix: "[rank " + strconv.Itoa(env.Rank) + "] "}
		cmd.Stdout, cmd.Stderr = p, p
	}
	return cmd
}

// end is the end of a rank.
type end struct {
	rank int
	err  error
}

// killed is the status of a rank that SIGKILL ended.
const killed = 128 + int(syscall.SIGKILL)

func (e end) status() int {
	var exit *exec.ExitError
	if !errors.As(e.err, &exit) {
		return 1
	}
	if w, ok := exit.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return exit.ExitCode()
}

// prefixed writes whole lines with a prefix. One goroutine of exec.Cmd writes to it.
type prefixed struct {
	mu     *sync.Mutex
	w      io.Writer
	prefix string
	line   []byte // the beginning of a line
}

func (p *prefixed) Write(b []byte) (int, error) {
	p.line = append(p.line, b...)
	for {
		i := bytes.IndexByte(p.line, '\n')
		if i < 0 {
			return len(b), nil
		}
		if err := p.write(p.line[:i+1]); err != nil {
			return 0, err
		}
		p.line = p.line[i+1:]
	}
}

func (p *prefixed) write(line []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.w.Write(append([]byte(p.prefix), line...))
	return err
}

// flush writes a last line that has no end.
func (p *prefixed) flush() {
	if len(p.line) > 0 {
		_ = p.write(append(p.line, '\n')) // the rank has ended
	}
}
