package dashboard

import (
	"slices"
	"strings"
	"sync"
)

// The bounds of the log tail.
const (
	maxRecords = 200
	maxRecord  = 2000 // bytes
)

// logTail keeps the newest lines of a log. It implements io.Writer for a handler that
// writes a line at a time.
type logTail struct {
	mu    sync.Mutex
	lines []string // newest last, guarded by mu
	total int      // lines ever written, guarded by mu
}

// Write adds a line.
func (l *logTail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, cut(strings.TrimSuffix(string(p), "\n"), maxRecord))
	l.lines = l.lines[max(0, len(l.lines)-maxRecords):]
	l.total++
	return len(p), nil
}

// since returns the lines after the first n of all lines, as far as they are kept, and
// the number of all lines.
func (l *logTail) since(n int) ([]string, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines[len(l.lines)-min(l.total-n, len(l.lines)):]), l.total
}

// until returns the kept ones of the first n lines.
func (l *logTail) until(n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines[:max(0, len(l.lines)-(l.total-n))])
}
