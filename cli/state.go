package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/openmanus/openmanus/cli/run"
)

// Signal is what Notify delivers.
type Signal = os.Signal

// hangUp is the signal of a terminal that closes.
const hangUp = syscall.SIGHUP

// State is the process as commands see it. Of package cli only this file
// imports os; a test passes a State of its own and runs commands in-process.
// Main sets Log and Progress.
type State struct {
	Args []string // Args[0] is the program's name
	run.Host

	Stdout, Stderr io.Writer
	Terminal       bool       // whether Stderr is one
	Columns        func() int // of the terminal; nil, or 0, where that is not known

	Notify func(chan<- Signal) (stop func()) // delivers SIGINT, SIGTERM, and SIGHUP unless it was ignored at the start
	Exit   func(code int)                    // ends the process at once: the second Ctrl-C

	Quiet bool // no progress

	levelFixed bool // --log-level or --quiet overrides log.level
}

// NewState returns the State of the running process.
func NewState() *State {
	return &State{
		Args:     os.Args,
		Host:     run.Host{Getenv: os.Getenv, Environ: os.Environ, Stdin: os.Stdin, Now: time.Now},
		Stdout:   os.Stdout,
		Stderr:   lasting(os.Stderr),
		Terminal: term.IsTerminal(int(os.Stderr.Fd())),
		Columns: func() int {
			n, _, err := term.GetSize(int(os.Stderr.Fd()))
			if err != nil { // it is gone, or says nothing
				return 0
			}
			return n
		},
		Notify: func(c chan<- Signal) func() {
			signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
			if !signal.Ignored(syscall.SIGHUP) { // as under nohup
				signals = append(signals, syscall.SIGHUP)
			}
			signal.Notify(c, signals...)
			return func() { signal.Stop(c) }
		},
		Exit: os.Exit,
	}
}

// lasting returns f under another descriptor. Go ends a program whose write to
// descriptor 1 or 2 meets a closed pipe; progress that nobody reads must not
// end a run before it is saved.
func lasting(f *os.File) *os.File {
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil { // f is closed: writes fail, and end nothing
		return f
	}
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), f.Name())
}

// columns is the width of the terminal, 80 where it is not known.
func (s *State) columns() int {
	if s.Columns != nil {
		if n := s.Columns(); n > 0 {
			return n
		}
	}
	return 80
}

// executableSum is the SHA-256 of the program that runs, read once.
var executableSum = sync.OnceValues(func() (string, error) {
	path := "/proc/self/exe" // what runs, also where another build has taken its name since
	if _, err := os.Stat(path); err != nil {
		if path, err = os.Executable(); err != nil {
			return "", err
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
})
