package cli

import (
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// screen is a stream that the logger, progress bars and the signal watcher
// share. On a terminal its last line may be a bar, which stays below whatever
// else is written.
type screen struct {
	mu  sync.Mutex
	w   io.Writer // guarded by mu
	bar string    // on the current line, guarded by mu
}

// screenOf returns w where it is a screen, and else a screen on it.
func screenOf(w io.Writer) *screen {
	if s, ok := w.(*screen); ok {
		return s
	}
	return &screen{w: w}
}

// Write writes p whole, never between two halves of another Write.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bar == "" {
		return s.w.Write(p)
	}
	text := s.blank() + string(p)
	if strings.HasSuffix(text, "\n") {
		text += s.bar
	} else {
		s.bar = "" // until it is drawn again
	}
	if _, err := io.WriteString(s.w, text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// draw replaces the bar; "" takes it away. It fails where the terminal is gone,
// and the work goes on without it.
func (s *screen) draw(bar string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if bar != s.bar {
		_, _ = io.WriteString(s.w, s.blank()+bar)
		s.bar = bar
	}
}

// blank overwrites the bar by spaces and goes to the beginning of its line: not
// every terminal knows an escape sequence for that.
func (s *screen) blank() string {
	if s.bar == "" {
		return ""
	}
	return "\r" + strings.Repeat(" ", utf8.RuneCountInString(s.bar)) + "\r"
}
