package external

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// grace is how long a program may take to end when its input has.
const grace = 3 * time.Second

// lateWords is how long output is still read when the program is gone.
const lateWords = time.Second

// program is a score function that reads a request a line and writes a reply a
// line. It is started by Start or for the first batch and lives until Close, or
// until it fails.
type program struct {
	args  []string
	o     Options
	child *child // nil: none is running
}

// newProgram looks for the program, but does not start it.
func newProgram(command string, o Options) (*program, error) {
	args, err := words(command)
	if err != nil {
		return nil, err
	}
	if err := executable(args[0], o.Dir); err != nil {
		return nil, &Error{Kind: KindUnreachable, Err: err}
	}
	return &program{args: args, o: o}, nil
}

// executable looks for a program where exec.Cmd does that runs in dir: in PATH,
// or, of a name with a slash, from there.
func executable(name, dir string) error {
	if strings.Contains(name, "/") && !filepath.IsAbs(name) {
		if name = filepath.Join(dir, name); !filepath.IsAbs(name) {
			name = "./" + name // or a Join that leaves one word makes it one of PATH
		}
	}
	_, err := exec.LookPath(name)
	return err
}

func (p *program) repeats() bool { return true }

// startWait is how long a program that was just started is watched: one that
// cannot be found, compiled or imported ends at once.
const startWait = time.Second

// start starts the program before the first batch, and fails if it ends without
// being asked.
func (p *program) start(ctx context.Context) error {
	wait := time.Duration(0)
	if p.child == nil {
		c, err := startChild(p.args, p.o)
		if err != nil {
			return &Error{Kind: KindUnreachable, Err: err}
		}
		p.child, wait = c, startWait
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-p.child.ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		select {
		case <-p.child.ended:
		default:
			return nil
		}
	}
	c := p.child
	p.child = nil
	c.end(0)
	return c.told(errors.New("it ended before it was asked anything"))
}

func (p *program) ask(ctx context.Context, _ int, body []byte) ([]byte, error) {
	if p.child == nil {
		c, err := startChild(p.args, p.o)
		if err != nil {
			return nil, &Error{Kind: KindUnreachable, Err: err}
		}
		p.child = c
	}
	text, err := p.child.exchange(ctx, body)
	if err != nil {
		// Whatever it still writes would be taken for the answer to the next.
		c := p.child
		p.child = nil
		c.end(0)
		return nil, c.told(err)
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
	replies chan []byte // closed at the end of its output
	broken  error       // why the output ended; to be read after replies is closed
	words   *tail       // the end of what it wrote to standard error
	ended   chan struct{}
	status  error // how it ended; to be read after ended
	wg      sync.WaitGroup

	mu     sync.Mutex
	reaped bool // guarded by mu
}

func startChild(args []string, o Options) (*child, error) {
	c := &child{replies: make(chan []byte), ended: make(chan struct{}), words: &tail{log: o.Log}}
	c.cmd = exec.Command(args[0], args[1:]...)
	c.cmd.Dir, c.cmd.Env, c.cmd.Stderr = o.Dir, o.Env, c.words
	c.cmd.WaitDelay = time.Second // of a grandchild that keeps standard error open
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
		// The kernel ends the child when the thread that started it ends: this
		// one does nothing else until then.
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

// reap reads the program's output until it ends, and kills what it leaves in
// its group while the group is still surely its own: before it is waited for.
func (c *child) reap(out io.Reader, most int) error {
	silent := make(chan struct{})
	c.wg.Go(func() {
		c.read(out, most)
		close(silent)
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
	case <-silent:
	case <-time.After(lateWords): // somebody out of the group holds the pipe: Wait closes it
	}
	return c.cmd.Wait()
}

// read hands lines over until the output ends or a line is too long.
func (c *child) read(out io.Reader, most int) {
	defer close(c.replies)
	lines := bufio.NewReaderSize(out, 1<<16)
	var line []byte
	for {
		part, err := lines.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > most:
			c.broken = &Error{Kind: KindReply, Err: fmt.Errorf("a reply of more than %d bytes", most)}
			return // whoever waits for the reply ends the program
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			c.broken = errors.New("it ended before it had answered")
			return
		default:
			c.replies <- bytes.TrimSpace(line)
			line = nil
		}
	}
}

// exchange sends a request and waits for the next line.
func (c *child) exchange(ctx context.Context, body []byte) ([]byte, error) {
	c.wg.Go(func() { _, _ = c.in.Write(body) }) // a program that does not read is ended by the limit
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

// end closes the program's input and, after the wait, kills its group. It
// returns when everything is gone.
func (c *child) end(wait time.Duration) {
	_ = c.in.Close()
	drained := make(chan struct{})
	go func() { // a reply that nobody waits for must not keep it
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

// kill ends the group, unless the program was waited for: its number may be
// somebody else's then.
func (c *child) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
	}
}

// told adds what is known of the end of a program to why it failed.
func (c *child) told(err error) error {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Kind: KindCrashed, Err: err}
	}
	var exit *exec.ExitError
	if errors.As(c.status, &exit) && exit.ExitCode() >= 0 {
		e.Err = fmt.Errorf("%w (%w)", e.Err, c.status)
	}
	e.Wrote = c.words.String()
	return e
}

// tail keeps the last bytes of what a program writes to standard error, and
// hands lines to the log.
type tail struct {
	mu  sync.Mutex
	b   []byte // guarded by mu
	log *slog.Logger
}

const tailBytes = 2000

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if over := len(t.b) - tailBytes; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	t.log.Debug("score function", "stderr", strings.TrimSpace(string(p)))
	return len(p), nil
}

// String is what was kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.b))
}
