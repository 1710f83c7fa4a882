package cli

import (
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/openmanus/openmanus/internal/textwidth"
)

// screen is the stderr that the logger, progress displays and the signal handler share. On a terminal its last
// line may be a bar, which stays below other output. Displays may be nested: the innermost one is shown.
type screen struct {
	columns func() int // width at which lines are wrapped; nil: they are not

	mu     sync.Mutex
	w      io.Writer // guarded by mu
	shown  []*shown  // open displays, the innermost last; guarded by mu
	bar    string    // bar on the current line, guarded by mu
	inLine bool      // the last line is not ended, guarded by mu
}

// shown is a display on a screen.
type shown struct {
	bar string // last drawn bar, guarded by screen.mu
}

// screenOf returns w if it is a screen, or else a screen on w.
func screenOf(w io.Writer) *screen {
	if s, ok := w.(*screen); ok {
		return s
	}
	return &screen{w: w}
}

// newScreen returns the screen of the process. On a terminal it wraps lines.
func (s *State) newScreen() *screen {
	out := screenOf(s.Stderr)
	if s.Terminal {
		out.columns = s.columns
	}
	return out
}

// Write writes p atomically.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	text := string(p)
	if s.columns != nil && !s.inLine {
		text = textwidth.Wrap(text, s.columns()-1)
	}
	s.inLine = !strings.HasSuffix(text, "\n")
	bar := s.bar
	if bar != "" {
		text = s.blank() + text
		if s.inLine {
			s.bar = "" // the bar is hidden until the next draw
		} else {
			text += bar
		}
	}
	if _, err := io.WriteString(s.w, text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// open adds a display. It hides the others until it is closed.
func (s *screen) open() *shown {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := &shown{}
	s.shown = append(s.shown, d)
	return d
}

// close removes a display and its bar.
func (s *screen) close(d *shown) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.shown {
		if other == d {
			s.shown = append(s.shown[:i], s.shown[i+1:]...)
			break
		}
	}
	bar := ""
	if n := len(s.shown); n > 0 {
		bar = s.shown[n-1].bar
	}
	s.put(bar)
}

// draw replaces the bar of a display.
func (s *screen) draw(d *shown, bar string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.bar = bar; s.innermost(d) {
		s.put(bar)
	}
}

// line writes a line for a display and returns true, if the display is the innermost one.
func (s *screen) line(d *shown, text string) bool {
	s.mu.Lock()
	inner := s.innermost(d)
	s.mu.Unlock()
	if inner {
		_, _ = s.Write([]byte(text + "\n")) // the reader of a pipe may have closed it
	}
	return inner
}

// innermost reports whether d is the innermost open display. The caller holds mu.
func (s *screen) innermost(d *shown) bool { return len(s.shown) > 0 && s.shown[len(s.shown)-1] == d }

// put shows a bar in place of the current one; "" shows none. It ignores errors, since the terminal may be closed.
// The caller holds mu.
func (s *screen) put(bar string) {
	if bar != s.bar {
		_, _ = io.WriteString(s.w, s.blank()+bar)
		s.bar = bar
	}
}

// blank returns the characters that clear the line of the bar. It uses no escape
// sequences, which some terminals lack.
func (s *screen) blank() string {
	if s.bar == "" {
		return ""
	}
	return "\r" + strings.Repeat(" ", utf8.RuneCountInString(s.bar)) + "\r"
}
