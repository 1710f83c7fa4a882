package cli

import (
	"fmt"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// Progress shows how far one piece of work is. Any goroutine may call it.
type Progress interface {
	// Set says that n of the total are done; note is a few words beside the bar.
	Set(n int, note string)
	// Done ends the display. Calling it twice is harmless.
	Done()
}

// plainEvery is the pause between progress lines where there is no terminal: a
// log file wants few.
const plainEvery = 10 * time.Second

// drawEvery is the pause between two drawings of a bar: eyes are not faster.
const drawEvery = 100 * time.Millisecond

// Progress starts a display of total pieces of work: a bar on a terminal, a
// line now and then elsewhere, nothing with --quiet.
func (s *State) Progress(label string, total int) Progress {
	switch {
	case s.Quiet:
		return silent{}
	case s.Terminal:
		return &bar{bar: progressbar.NewOptions(total,
			progressbar.OptionSetWriter(s.Stderr),
			progressbar.OptionSetDescription(label),
			progressbar.OptionShowCount(),
			progressbar.OptionSetWidth(24),
			progressbar.OptionClearOnFinish(),
		), s: s, label: label, total: total}
	}
	return &plain{s: s, label: label, total: total, last: s.Now()}
}

type silent struct{}

func (silent) Set(int, string) {}
func (silent) Done()           {}

// bar is a progress bar on a terminal.
type bar struct {
	s     *State
	label string
	total int

	mu    sync.Mutex
	bar   *progressbar.ProgressBar // guarded by mu
	text  string                   // beside the bar, guarded by mu
	drawn time.Time                // when last, guarded by mu
	done  bool                     // guarded by mu
}

// Set moves the bar, at most every drawEvery.
func (b *bar) Set(n int, note string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.s.Now()
	if b.done || n < b.total && now.Sub(b.drawn) < drawEvery {
		return
	}
	b.drawn = now
	text := b.label
	if note != "" {
		text += " " + note
	}
	if text != b.text {
		b.text = text
		b.bar.Describe(text)
	}
	// Drawing fails where the terminal is gone; the work goes on without it.
	_ = b.bar.Set(min(max(n, 0), b.total))
}

// Done clears the bar's line.
func (b *bar) Done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		return
	}
	b.done = true
	_ = b.bar.Clear()
	_ = b.bar.Exit()
}

// plain writes a line every plainEvery and one at the end.
type plain struct {
	s     *State
	label string
	total int

	mu   sync.Mutex
	n    int       // guarded by mu
	note string    // guarded by mu
	last time.Time // of a line, guarded by mu
	done bool      // guarded by mu
}

// Set writes a line if the last one is long ago.
func (p *plain) Set(n int, note string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n, p.note = n, note
	if now := p.s.Now(); !p.done && now.Sub(p.last) >= plainEvery {
		p.last = now
		p.line()
	}
}

// Done writes how far the work came.
func (p *plain) Done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.done {
		p.done = true
		p.line()
	}
}

func (p *plain) line() {
	note := ""
	if p.note != "" {
		note = " " + p.note
	}
	fmt.Fprintf(p.s.Stderr, "%s: %d/%d%s\n", p.label, p.n, p.total, note)
}
