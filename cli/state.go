package cli

import (
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/internal/payload"
)

// Signal is the type of signals that Notify delivers.
type Signal = os.Signal

// The signals that commands distinguish: hangUp is sent when a terminal closes, ctrlC by the key, and otherFailed by the launcher of
// --processes to rank 0.
const (
	hangUp      = syscall.SIGHUP
	ctrlC       = syscall.SIGINT
	otherFailed = syscall.SIGUSR1
)

// State is the process as commands see it. Tests run commands in-process with
// another State. Main sets Log, Progress and the unexported fields.
type State struct {
	Args []string // Args[0] is the program's name
	run.Host
	Launcher string // the one-file executable that started the process, or ""

	Stdout, Stderr io.Writer
	Terminal       bool       // Stderr is a terminal
	Columns        func() int // width of the terminal; nil or 0 if unknown
	Keyboard       *Keyboard  // nil unless Stdin and Stderr are a terminal

	Notify func(chan<- Signal) (stop func()) // delivers SIGINT, SIGTERM, SIGUSR1, and SIGHUP unless the process ignores it
	Exit   func(code int)                    // ends the process immediately, on the second Ctrl-C

	Program    string     // file of the program, for processes that it starts; "": Args[0]
	terminal   io.Writer  // Stderr as NewState set it, without the displays of this process
	rank       int        // of this process in a run of several processes
	quiet      bool       // no progress is shown
	levelFixed bool       // --log-level or --quiet overrides log.level
	interrupts Interrupts // contexts of the running command, whose parameter ctx is interrupts.Soft
}

// NewState returns the State of the running process.
func NewState() *State {
	return &State{
		Args:     os.Args,
		Launcher: payload.Inherited(),
		Program:  "/proc/self/exe",
		Host:     run.Host{Getenv: os.Getenv, Environ: os.Environ, Stdin: os.Stdin, Now: time.Now},
		Stdout:   os.Stdout,
		Stderr:   duplicate(os.Stderr),
		Terminal: term.IsTerminal(int(os.Stderr.Fd())),
		Columns: func() int {
			n, _, err := term.GetSize(int(os.Stderr.Fd()))
			if err != nil { // the terminal is closed or has no size
				return 0
			}
			return n
		},
		Notify: func(c chan<- Signal) func() {
			signals := []os.Signal{os.Interrupt, syscall.SIGTERM, otherFailed}
			if !signal.Ignored(syscall.SIGHUP) { // nohup ignores SIGHUP
				signals = append(signals, syscall.SIGHUP)
			}
			signal.Notify(c, signals...)
			return func() { signal.Stop(c) }
		},
		Exit:     os.Exit,
		Keyboard: keyboard(os.Stdin, os.Stderr),
	}
}

// keyboard returns the terminal of in and out, or nil if one of them is none.
func keyboard(in, out *os.File) *Keyboard {
	fd := int(in.Fd())
	if !term.IsTerminal(fd) || !term.IsTerminal(int(out.Fd())) {
		return nil
	}
	return &Keyboard{Reader: in, Writer: out, Raw: func() (func(), error) {
		before, err := term.MakeRaw(fd)
		if err != nil {
			return nil, err
		}
		return func() { _ = term.Restore(fd, before) }, nil // fails if the terminal is closed
	}}
}

// duplicate returns f under another descriptor. Go ends a program that writes to a closed
// pipe on descriptor 1 or 2; on other descriptors the write returns an error, and the run can be saved.
func duplicate(f *os.File) *os.File {
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil { // f is closed: writes return errors
		return f
	}
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), f.Name())
}

// columns returns the width of the terminal, or 80 if it is unknown.
func (s *State) columns() int {
	if s.Columns != nil {
		if n := s.Columns(); n > 0 {
			return n
		}
	}
	return 80
}
