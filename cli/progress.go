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

	"github.com/openmanus/openmanus/cli/pace"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/internal/textwidth"
)

// plainEvery is the time between progress lines without a terminal.
const plainEvery = 10 * time.Second

// drawEvery is the minimum time between two drawings of a bar.
const drawEvery = 100 * time.Millisecond

// tickEvery is the time between two updates of a display whose work reports nothing.
const tickEvery = time.Second

// widestBar is the maximum width of the bar without the text around it, in columns.
const widestBar = 24

// work is a piece of work that a display shows.
type work struct {
	label   string
	total   int           // number of units; 0: unknown
	uncount bool          // the note has the counts: the display shows the share only
	prior   time.Duration // time that the previous work of the same kind took; 0: unknown
	// runLeft returns the remaining time of the whole run from that of the work, 0 if it is unknown. nil: the work is not part of a run.
	runLeft func(now time.Time, left time.Duration) (run time.Duration, atLeast, ok bool)
}

// newProgress shows a piece of work: by a bar on a terminal, and by a line every plainEvery elsewhere.
func (s *State) newProgress(label string, total int) run.Progress {
	return s.display(work{label: label, total: total})
}

// display shows a piece of work until Done is called.
func (s *State) display(w work) *display {
	d := &display{s: s, work: w, out: screenOf(s.Stderr), began: s.Now(), quit: make(chan struct{})}
	d.eta = pace.Estimate{Began: d.began, Prior: w.prior}
	d.shown = d.out.open()
	if d.last = d.began; s.Terminal {
		d.update(true)
		d.last = time.Time{} // the first Set is drawn at once
	}
	d.ticks.Go(d.tick)
	return d
}

// display shows the progress of a piece of work.
type display struct {
	s *State
	work
	out   *screen
	shown *shown
	began time.Time
	quit  chan struct{}
	ticks sync.WaitGroup

	mu      sync.Mutex
	n       int           // guarded by mu
	counted bool          // Set was called, guarded by mu
	note    string        // guarded by mu
	live    func() string // guarded by mu
	eta     pace.Estimate // guarded by mu
	last    time.Time     // time of the last drawing by Set or of the last line, guarded by mu
	printed string        // texts of the last line, guarded by mu
	lines   int           // number of written lines, guarded by mu
	done    bool          // guarded by mu
}

// Set updates the counts and the display. The number of units never decreases.
func (d *display) Set(n int, note string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n, d.note = max(d.n, min(n, d.total)), note
	if !d.counted && d.total > 0 {
		d.eta.From, d.eta.Began = float64(d.n)/float64(d.total), d.s.Now()
		d.counted = true
	}
	d.update(d.n == d.total && d.total > 0)
}

// Live sets a function that returns a further note. The display calls it every tickEvery, until Done returns.
func (d *display) Live(note func() string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.live = note
	d.update(false)
}

// tick updates the display every tickEvery until quit is closed.
func (d *display) tick() {
	t := time.NewTicker(tickEvery)
	defer t.Stop()
	for {
		select {
		case <-d.quit:
			return
		case <-t.C:
			d.refresh()
		}
	}
}

// refresh updates the times of the display and its live note.
func (d *display) refresh() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.update(true)
}

// update draws the bar, or writes a line if one is due. A bar is drawn at most once every drawEvery, unless
// now is true. The caller holds mu if d is shared.
func (d *display) update(now bool) {
	at := d.s.Now()
	switch {
	case d.done:
	case d.s.Terminal:
		if now || at.Sub(d.last) >= drawEvery {
			d.last = at
			d.out.draw(d.shown, d.bar(d.s.columns()-1)) // a terminal may wrap after the last column
		}
	case at.Sub(d.last) >= plainEvery:
		d.last = at
		d.line()
	}
}

// line writes a line for a reader without a terminal.
func (d *display) line() {
	text := strings.Join(d.texts(), " ")
	if d.out.line(d.shown, d.label+": "+strings.Join(slices.DeleteFunc(append([]string{text}, d.times()...), empty), ", ")) {
		d.printed, d.lines = text, d.lines+1
	}
}

// texts returns the count, the note and the live note.
func (d *display) texts() []string {
	count, live := "", ""
	if d.total > 0 && !d.uncount {
		count = fmt.Sprintf("%d/%d", d.n, d.total)
	}
	if d.live != nil {
		live = d.live()
	}
	return slices.DeleteFunc([]string{count, d.note, live}, empty)
}

// times returns the elapsed time, and the remaining times of the work and of the run. "run 9:00+ left" is a lower bound.
func (d *display) times() []string {
	now := d.s.Now()
	times := []string{clock(now.Sub(d.began))}
	share := 0.0
	if d.total > 0 {
		share = float64(d.n) / float64(d.total)
	}
	left, _ := d.eta.Left(now, share)
	if left >= time.Second {
		times = append(times, clock(left)+" left")
	}
	if d.runLeft != nil {
		if run, atLeast, ok := d.runLeft(now, left); ok && run >= time.Second {
			text := "run " + clock(run)
			if atLeast {
				text += "+"
			}
			times = append(times, text+" left")
		}
	}
	return times
}

// bar returns the display in at most the given number of columns:
//
//	step 2/24 playing 14/32 9 solved 2.1k tok  43% |█████     | 1:20, 1:45 left, run 22:10 left
//
// If the line is too long, it shortens the bar, and then omits the live note, the bar with the share, the elapsed time, the
// note, and the remaining times. The label is cut last.
func (d *display) bar(columns int) string {
	texts, times := d.texts(), d.times()
	fits := func() bool {
		return utf8.RuneCountInString(joined(d.label, strings.Join(texts, " "), strings.Join(times, ", "))) <= columns
	}
	if len(texts) > 1 && !fits() {
		texts = texts[:len(texts)-1]
	}
	if len(times) > 1 && !fits() {
		times = times[1:]
	}
	for len(texts) > 1 && !fits() {
		texts = texts[:len(texts)-1]
	}
	for len(times) > 0 && !fits() {
		times = times[:len(times)-1]
	}
	label, text, clocks := d.label, strings.Join(texts, " "), strings.Join(times, ", ")
	if room := columns - utf8.RuneCountInString(text); !fits() && room > 1 {
		label = textwidth.Cut(label, room-1)
	}
	text = joined(label, text)
	const around = len("  100% ||  ") // columns around the bar
	width := min(widestBar, columns-utf8.RuneCountInString(text)-utf8.RuneCountInString(clocks)-around)
	if d.total == 0 || width < 3 {
		return textwidth.Cut(joined(text, clocks), columns)
	}
	p := progressbar.NewOptions(d.total, progressbar.OptionSetWriter(io.Discard), progressbar.OptionSetDescription(text),
		progressbar.OptionSetWidth(width), progressbar.OptionSetPredictTime(false))
	_ = p.Set(d.n) // writing to io.Discard cannot fail
	_ = p.RenderBlank()
	return textwidth.Cut(joined(strings.TrimSpace(p.String()), clocks), columns)
}

// Done ends the display. Without a terminal it writes a last line, unless the previous line has the same counts or the work
// ended before the first line was due.
func (d *display) Done() {
	d.mu.Lock()
	if d.done {
		d.mu.Unlock()
		return
	}
	overdue := d.s.Now().Sub(d.last) >= plainEvery
	if !d.s.Terminal && (d.lines == 0 && overdue || d.lines > 0 && d.printed != strings.Join(d.texts(), " ")) {
		d.line()
	}
	d.done = true
	d.mu.Unlock()
	close(d.quit)
	d.ticks.Wait()
	d.out.close(d.shown)
}

// joined joins the non-empty parts with spaces.
func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, empty), " ")
}

func empty(s string) bool { return s == "" }

// clock formats a duration as 0:07, 12:34 or 1:02:03.
func clock(d time.Duration) string {
	s := int(d.Round(time.Second) / time.Second)
	if s < 3600 {
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}
