package external

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// grace is the time for a program to exit after its input has ended.
const grace = 3 * time.Second

// drainTime is the time to read remaining output after the program has exited.
const drainTime = time.Second

// program is a score function that reads a request per line and writes a reply per
// line. Start or the first batch starts it. It runs until Close or a failure.
type program struct {
	args  []string
	o     Options
	child *child // nil if not running
}

// newProgram checks that the program exists, but does not start it.
func newProgram(command string, o Options) (*program, error) {
	args, err := splitCommand(command)
	if err != nil {
		return nil, err
	}
	if err := executable(args[0], o.Dir); err != nil {
		return nil, &Error{Kind: KindUnreachable, Err: err}
	}
	return &program{args: args, o: o}, nil
}

// executable returns an error unless exec.Cmd with Dir dir finds the program: in PATH,
// or relative to dir if the name contains a slash.
func executable(name, dir string) error {
	if strings.Contains(name, "/") && !filepath.IsAbs(name) {
		if name = filepath.Join(dir, name); !filepath.IsAbs(name) {
			name = "./" + name // keep a slash, so that LookPath does not search PATH
		}
	}
	_, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: install the program, or give the path of one that exists", err)
	}
	return err
}

// startWait is the time for which a new program is watched. It is long enough to detect
// that a script is missing or has a syntax or import error.
const startWait = time.Second

// start starts the program and returns an error if it ends before the first request.
func (p *program) start(ctx context.Context) error {
	if p.child == nil {
		if err := p.launch(); err != nil {
			return err
		}
		select {
		case <-p.child.ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(startWait):
		}
	}
	select {
	case <-p.child.ended:
		return p.fail(errors.New("the program ended before the first request"))
	default:
		return nil
	}
}

func (p *program) launch() (err error) {
	if p.child, err = startChild(p.args, p.o); err != nil {
		return &Error{Kind: KindUnreachable, Err: err}
	}
	return nil
}

// fail ends the program and adds its exit status to err.
func (p *program) fail(err error) error {
	c := p.child
	p.child = nil
	c.end(0)
	return c.withExit(err)
}

func (p *program) call(ctx context.Context, body []byte) ([]byte, error) {
	if p.child == nil {
		if err := p.launch(); err != nil {
			return nil, err
		}
	}
	text, err := p.child.exchange(ctx, body)
	if err != nil {
		return nil, p.fail(err) // a late reply would be taken for the reply to the next request
	}
	return text, nil
}

func (p *program) close() error {
	if p.child != nil {
		p.child.end(grace)
		p.child = nil
	}
	return nil
}

// child is a running program.
type child struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	replies chan []byte // closed at the end of standard output
	broken  error       // reason for the end of replies; read after replies is closed
	stderr  *tail
	ended   chan struct{} // closed after the program has exited
	status  error         // result of Wait; read after ended is closed
	wg      sync.WaitGroup

	mu     sync.Mutex
	reaped bool // guarded by mu
}

func startChild(args []string, o Options) (*child, error) {
	c := &child{replies: make(chan []byte), ended: make(chan struct{}), stderr: &tail{log: o.Log}}
	c.cmd = exec.Command(args[0], args[1:]...)
	c.cmd.Dir, c.cmd.Env, c.cmd.Stderr = o.Dir, o.Env, c.stderr
	c.cmd.WaitDelay = time.Second // limits Wait if a grandchild keeps standard error open
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started := make(chan error)
	c.wg.Go(func() {
		// Pdeathsig fires when the thread that started the child ends, so this
		// goroutine keeps its thread until the child has exited.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.status = c.reap(out, o.MaxReply)
			close(c.ended)
		}
	})
	if err := <-started; err != nil {
		c.wg.Wait()
		return nil, err
	}
	return c, nil
}

// reap reads the program's output, waits for its exit and kills the rest of its
// process group. It kills before Wait, because after Wait another process may have the id.
func (c *child) reap(out io.Reader, maxReply int) error {
	drained := make(chan struct{})
	c.wg.Go(func() {
		c.read(out, maxReply)
		close(drained)
	})
	const pidType, exited, leave = 1, 4, 1 << 24 // P_PID, WEXITED, WNOWAIT of waitid(2)
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pidType, uintptr(c.cmd.Process.Pid), 0, exited|leave, 0, 0)
		if errno != syscall.EINTR {
			break
		}
	}
	c.kill()
	c.mu.Lock()
	c.reaped = true
	c.mu.Unlock()
	select {
	case <-drained:
	case <-time.After(drainTime): // a process outside of the group has the pipe open; Wait closes it
	}
	return c.cmd.Wait()
}

// read sends the output's lines to the channel replies until the output ends or a line is too long.
func (c *child) read(out io.Reader, maxReply int) {
	defer close(c.replies)
	lines := bufio.NewReaderSize(out, 1<<16)
	var line []byte
	for {
		part, err := lines.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxReply:
			c.broken = &Error{Kind: KindReply, Err: fmt.Errorf("the reply has more than %d bytes", maxReply)}
			return // program.call ends the program
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			c.broken = errors.New("the program ended without a reply")
			return
		default:
			c.replies <- bytes.TrimSpace(line)
			line = nil
		}
	}
}

// exchange sends a request and waits for the next line.
func (c *child) exchange(ctx context.Context, body []byte) ([]byte, error) {
	c.wg.Go(func() { _, _ = c.in.Write(body) }) // the time limit ends a program that does not read
	select {
	case text, ok := <-c.replies:
		if ok {
			return text, nil
		}
		return nil, c.broken
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// end closes the program's input and kills its process group after the time wait. The method returns after all
// goroutines of the child have ended.
func (c *child) end(wait time.Duration) {
	_ = c.in.Close()
	drained := make(chan struct{})
	go func() { // an unread reply must not block read
		for range c.replies {
		}
		close(drained)
	}()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-c.ended:
	case <-timer.C:
		c.kill()
	}
	c.wg.Wait()
	<-drained
}

// kill kills the process group unless the program was reaped, because the group's id
// may then belong to another process.
func (c *child) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
	}
}

// withExit adds the exit status and the standard error of an ended program to err.
func (c *child) withExit(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		e = &Error{Kind: KindCrashed, Err: err}
	}
	if exit, ok := errors.AsType[*exec.ExitError](c.status); ok && exit.ExitCode() >= 0 {
		e.Err = fmt.Errorf("%w (%w)", e.Err, c.status)
	}
	e.Stderr = c.stderr.String()
	return e
}

// tail keeps the last bytes of a program's standard error, and logs all of it.
type tail struct {
	mu  sync.Mutex
	b   []byte // guarded by mu
	log *slog.Logger
}

const tailBytes = 2000

// Write implements io.Writer. It never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	t.b = t.b[max(0, len(t.b)-tailBytes):]
	t.log.Debug("score function", "stderr", strings.TrimSpace(string(p)))
	return len(p), nil
}

// String returns the kept text.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.b))
}
