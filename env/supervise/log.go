package supervise

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"
)

// serverLog is the log file of one server. At half of the allowed size it is renamed
// to FILE.1, which replaces the previous FILE.1, and a new file is started, so
// that the newest output is kept. Output that cannot be written, as on a full disk, is
// dropped, because the server must not block.
type serverLog struct {
	path string
	max  int64
	f    *os.File
	size int64
}

func (l *serverLog) open() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("open the server's log: %w", err)
	}
	st, err := f.Stat()
	if err != nil {
		_ = f.Close() // nothing was written
		return fmt.Errorf("open the server's log: %w", err)
	}
	l.f, l.size = f, st.Size()
	return nil
}

// Write never fails.
func (l *serverLog) Write(p []byte) (int, error) {
	if l.size+int64(len(p)) > l.max && l.size > 0 {
		l.turn()
	}
	if l.f != nil {
		n, _ := l.f.Write(p) // a failed write drops the output
		l.size += int64(n)
	}
	return len(p), nil
}

func (l *serverLog) turn() {
	if l.f == nil {
		return
	}
	_ = l.f.Close()                    // the kernel has the written data
	_ = os.Rename(l.path, l.path+".1") // after a failure the log continues in the same file
	if err := l.open(); err != nil {
		l.f = nil
	}
}

func (l *serverLog) close() error {
	if l.f == nil {
		return nil
	}
	return l.f.Close()
}

// logHead is the beginning of the watchdog's lines in a log. A line of the watchdog
// precedes the output of every start.
const logHead = "--- openmanus: "

// These constants limit the part of a log in an error.
const (
	tailBytes = 4096
	tailLines = 12
)

// logTail returns the last lines that a server wrote since its last start, for an
// error message.
func logTail(path string) string {
	name := filepath.Base(path)
	b, err := os.ReadFile(path)
	if err != nil {
		return "its log cannot be read: " + err.Error()
	}
	b = b[max(0, len(b)-tailBytes):]
	if i := bytes.LastIndex(b, []byte(logHead+"start ")); i >= 0 {
		_, b, _ = bytes.Cut(b[i:], []byte("\n"))
	}
	var lines []string
	for line := range strings.SplitSeq(printable(string(b)), "\n") {
		if line = strings.TrimRight(line, " \t"); line != "" && !strings.HasPrefix(line, logHead) {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return "it wrote nothing to " + name
	}
	return "the end of " + name + ":" + lastLines(lines)
}

// lastLines returns the last lines, each indented on a new line.
func lastLines(lines []string) string {
	return "\n  " + strings.Join(lines[max(0, len(lines)-tailLines):], "\n  ")
}

// printable removes control characters, which a terminal would interpret.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(s, "\uFFFD"))
}
