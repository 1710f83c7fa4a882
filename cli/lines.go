package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"golang.org/x/term"
)

// Keyboard is a terminal on which a person types.
type Keyboard struct {
	io.Reader
	io.Writer
	// Raw makes the terminal pass every key to the program until restore is called.
	Raw func() (restore func(), err error)
}

// lineReader reads the lines that a person types or that a pipe delivers. Its methods must not
// be called concurrently.
type lineReader interface {
	// ReadLine shows prompt if a person types, and returns the next line. Its error is io.EOF at
	// the end, errCtrlC after Ctrl-C at the prompt, or the cause of ctx.
	ReadLine(ctx context.Context, prompt string) (string, error)
}

// errCtrlC is the error of a line that the person ended with Ctrl-C.
var errCtrlC = errors.New("Ctrl-C at the prompt")

// lines returns the reader of the lines of Stdin. A terminal has line editing and a history.
func (s *State) lines() lineReader {
	if s.Keyboard != nil {
		return &typedLines{keyboard: s.Keyboard, width: s.columns, history: term.NewTerminal(nil, "").History}
	}
	return &pipedLines{in: bufio.NewReader(s.Stdin)}
}

// lineResult is the result of a read in another goroutine.
type lineResult struct {
	text string
	err  error
}

// await returns the result of read, which runs in another goroutine, or the cause of ctx. The
// goroutine then stays until read returns, because a read of standard input cannot be cancelled.
func await(ctx context.Context, read func() (string, error)) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	done := make(chan lineResult, 1)
	go func() {
		text, err := read()
		done <- lineResult{text, err}
	}()
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case r := <-done:
		return r.text, r.err
	}
}

// pipedLines reads lines of a file or a pipe.
type pipedLines struct{ in *bufio.Reader }

func (p *pipedLines) ReadLine(ctx context.Context, _ string) (string, error) {
	return await(ctx, func() (string, error) {
		line, err := p.in.ReadString('\n')
		if line != "" && errors.Is(err, io.EOF) {
			err = nil // the last line has no end
		}
		return strings.TrimRight(line, "\r\n"), err
	})
}

// typedLines reads lines from a terminal. The terminal is in raw mode only during ReadLine, so
// that Ctrl-C is a signal at other times.
type typedLines struct {
	keyboard *Keyboard
	width    func() int
	history  term.History
}

func (l *typedLines) ReadLine(ctx context.Context, prompt string) (string, error) {
	restore, err := l.keyboard.Raw()
	if err != nil {
		return "", err
	}
	defer restore()
	keys := &keyReader{Reader: l.keyboard}
	// A Terminal keeps a line that Ctrl-C has ended, so every line has its own.
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{keys, l.keyboard}, prompt)
	t.History = l.history
	_ = t.SetSize(max(l.width(), len(prompt)+10), 24) // fails only for the size 0
	line, err := await(ctx, t.ReadLine)
	if errors.Is(err, io.EOF) && keys.ctrlC {
		err = errCtrlC
	}
	if err != nil {
		_, _ = io.WriteString(l.keyboard, "\r\n")
	}
	return line, err
}

// keyReader records whether Ctrl-C was pressed: a Terminal reports it like the end of the input.
type keyReader struct {
	io.Reader
	ctrlC bool
}

func (k *keyReader) Read(b []byte) (int, error) {
	const key = 3
	n, err := k.Reader.Read(b)
	k.ctrlC = k.ctrlC || bytes.IndexByte(b[:n], key) >= 0
	return n, err
}
