package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/schollz/progressbar/v3"

	"github.com/openmanus/openmanus/cli/run"
)

// plainEvery is the time between progress lines without a terminal.
const plainEvery = 10 * time.Second

// drawEvery is the minimum time between two drawings of a bar.
const drawEvery = 100 * time.Millisecond

// tickEvery is the time between drawings that update the clock of a bar.
const tickEvery = time.Second

// widestBar is the maximum width of the bar without the text around it, in columns.
const widestBar = 24

// newProgress returns a bar on a terminal, and a line every plainEvery elsewhere.
// With total 0 the bar shows the elapsed time.
func (s *State) newProgress(label string, total int) run.Progress {
	if !s.Terminal {
		return &plain{s: s, label: label, total: total, last: s.Now()}
	}
	b := &bar{s: s, out: screenOf(s.Stderr), label: label, total: total, began: s.Now(), quit: make(chan struct{})}
	b.draw()
	b.ticks.Go(b.tick)
	return b
}

// bar is a progress bar on one line of a terminal.
type bar struct {
	s     *State
	out   *screen
	label string
	total int
	began time.Time
	quit  chan struct{}
	ticks sync.WaitGroup

	mu    sync.Mutex
	n     int       // guarded by mu
	from  int       // first value of n, guarded by mu
	since time.Time // when from was set, guarded by mu
	note  string    // guarded by mu
	drawn time.Time // last drawing by Set, guarded by mu
	done  bool      // guarded by mu
}

// Set updates the values of the bar, and draws the bar at most once every drawEvery.
func (b *bar) Set(n int, note string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.s.Now()
	b.n, b.note = min(max(n, 0), b.total), note
	if b.since.IsZero() {
		b.from, b.since = b.n, now
	}
	if b.done || n < b.total && now.Sub(b.drawn) < drawEvery {
		return
	}
	b.drawn = now
	b.draw()
}

// tick draws the bar every tickEvery until quit is closed.
func (b *bar) tick() {
	t := time.NewTicker(tickEvery)
	defer t.Stop()
	for {
		select {
		case <-b.quit:
			return
		case <-t.C:
			b.mu.Lock()
			b.draw()
			b.mu.Unlock()
		}
	}
}

// draw draws the bar. The caller holds mu if b is already shared.
func (b *bar) draw() {
	b.out.draw(b.line(b.s.columns() - 1)) // a terminal may wrap after the last column
}

// line returns the bar in at most the given number of columns:
//
//	playing 14/32 9 solved  43% |█████     | 1:20 < 1:45
//
// with the elapsed and the estimated remaining time. If the line is too long, it
// omits the bar, and then cuts the end.
func (b *bar) line(columns int) string {
	now := b.s.Now()
	took := now.Sub(b.began)
	if b.total == 0 {
		return cut(joined(b.label, b.note, clock(took)), columns)
	}
	text := joined(b.label, fmt.Sprintf("%d/%d", b.n, b.total), b.note)
	times := clock(took)
	if done := b.n - b.from; done > 0 {
		times += " < " + clock(time.Duration(float64(now.Sub(b.since))/float64(done)*float64(b.total-b.n)))
	}
	const around = len(" 100% ||  ") // columns around the bar
	width := min(widestBar, columns-utf8.RuneCountInString(text)-utf8.RuneCountInString(times)-around)
	if width < 3 {
		return cut(joined(text, fmt.Sprintf("%d%%", 100*b.n/b.total), times), columns)
	}
	p := progressbar.NewOptions(b.total, progressbar.OptionSetWriter(io.Discard), progressbar.OptionSetDescription(text),
		progressbar.OptionSetWidth(width), progressbar.OptionSetPredictTime(false))
	_ = p.Set(b.n) // writing to io.Discard cannot fail
	_ = p.RenderBlank()
	return cut(joined(strings.TrimSpace(p.String()), times), columns)
}

// Done clears the bar's line.
func (b *bar) Done() {
	b.mu.Lock()
	if b.done {
		b.mu.Unlock()
		return
	}
	b.done = true
	b.mu.Unlock()
	close(b.quit)
	b.ticks.Wait()
	b.out.draw("")
}

// joined joins the non-empty parts with spaces.
func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ")
}

// cut returns the first n columns of text.
func cut(text string, n int) string {
	if runes := []rune(text); len(runes) > n {
		return string(runes[:max(n, 0)])
	}
	return text
}

// clock formats a duration as 0:07, 12:34 or 1:02:03.
func clock(d time.Duration) string {
	s := int(d.Round(time.Second) / time.Second)
	if s < 3600 {
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

// plain writes a progress line every plainEvery and at the end.
type plain struct {
	s     *State
	label string
	total int

	mu      sync.Mutex
	n       int       // guarded by mu
	note    string    // guarded by mu
	last    time.Time // time of the last line, guarded by mu
	printed string    // the last line, guarded by mu
	done    bool      // guarded by mu
}

// Set writes a line if plainEvery has passed since the last line.
func (p *plain) Set(n int, note string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n, p.note = n, note
	if now := p.s.Now(); !p.done && now.Sub(p.last) >= plainEvery {
		p.last = now
		p.line()
	}
}

// Done writes a last line, unless the previous line is equal or the work ended
// before the first line was due.
func (p *plain) Done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return
	}
	p.done = true
	if p.printed != p.text() && (p.printed != "" || p.s.Now().Sub(p.last) >= plainEvery) {
		p.line()
	}
}

func (p *plain) line() {
	p.printed = p.text()
	fmt.Fprintln(p.s.Stderr, p.printed)
}

// text returns the line. The caller holds mu.
func (p *plain) text() string {
	count := ""
	if p.total > 0 {
		count = fmt.Sprintf("%d/%d", p.n, p.total)
	}
	return joined(p.label+":", count, p.note)
}

// screen is the stderr that the logger, progress bars and the signal handler
// share. On a terminal its last line may be a bar, which stays below other
// output.
type screen struct {
	mu  sync.Mutex
	w   io.Writer // guarded by mu
	bar string    // bar on the current line, guarded by mu
}

// screenOf returns w if it is a screen, or else a screen on w.
func screenOf(w io.Writer) *screen {
	if s, ok := w.(*screen); ok {
		return s
	}
	return &screen{w: w}
}

// Write writes p atomically.
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
		s.bar = "" // the bar is hidden until the next draw
	}
	if _, err := io.WriteString(s.w, text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// draw replaces the bar; "" removes it. It ignores errors, since the terminal may
// be closed.
func (s *screen) draw(bar string) {
	s.mu.Lock()
	defer s.mu.Unlock()
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
