package dashboard

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/openmanus/openmanus/algo/report"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data/view"
)

// maxLines is the number of new lines from which a browser receives the whole run instead.
const maxLines = 100

// whole is the state of the run as a message.
type whole struct {
	Run *report.Run `json:"run"`
	facts
}

// grown holds the new content of the run folder, as a message.
type grown struct {
	Lines []line `json:"lines"`
	facts
}

// facts are the parts of the run that are sent as a whole after every change.
type facts struct {
	Row         report.Row           `json:"row"`
	Steps       int                  `json:"steps"`
	Validations []report.Validation  `json:"validations"`
	Links       []report.EpisodeLink `json:"links"`
}

// line is a line of metrics. Values that are not finite are null.
type line struct {
	Phase   track.Phase         `json:"phase"`
	Step    int                 `json:"step"`
	Metrics map[string]*float64 `json:"metrics"`
}

// records are lines of the log as a message.
type records struct {
	Anew  bool     `json:"anew"` // the lines replace the shown ones
	Lines []string `json:"lines"`
}

func lineOf(l track.Line) line {
	out := line{l.Phase, l.Step, map[string]*float64{}}
	for name, x := range l.Metrics {
		if strings.HasPrefix(name, "untrained/") { // not part of the curves
			continue
		}
		out.Metrics[name] = nil
		if !math.IsNaN(x) && !math.IsInf(x, 0) {
			out.Metrics[name] = &x
		}
	}
	return out
}

// factsOf returns the facts about the run. The caller holds reading.
func (d *Dashboard) factsOf() facts {
	return facts{report.FactsOf(d.run).Row(d.o.Now()), d.run.Steps, d.run.Validations, links(d.run.Rollouts)}
}

// maxLinks is the number of newest files of episodes that the page links to.
const maxLinks = 40

// links returns the links to files of episodes, newest first.
func links(files []string) []report.EpisodeLink {
	out := []report.EpisodeLink{}
	for i := len(files) - 1; i >= 0 && len(out) < maxLinks; i-- {
		out = append(out, report.EpisodeLink{Label: view.Origin(files[i]), Href: "episodes?file=" + files[i]})
	}
	return out
}

// message encodes an event. An encoding error is shown in the log, and the message is a comment.
func (d *Dashboard) message(event string, v any) message {
	b, err := json.Marshal(v)
	if err != nil {
		d.o.Log.Warn("the dashboard cannot show a change", "event", event, "error", err)
		return message{event: "lost", data: []byte("{}")}
	}
	return message{event, b}
}

// pass sends all changes since the last pass to the browsers.
func (d *Dashboard) pass() {
	d.reading.Lock() // held until the messages are queued, so that they keep their order
	defer d.reading.Unlock()
	d.mu.Lock()
	status, isGrown, forget, steps := d.status, d.grown, d.forget, d.steps
	d.status, d.grown, d.forget = false, false, false
	d.mu.Unlock()
	if d.run != nil && (isGrown || forget) {
		if forget {
			d.run.Forget()
		}
		lines, anew, err := d.run.Follow()
		d.run.Steps = max(d.run.Steps, steps)
		switch {
		case err != nil:
			d.o.Log.Warn("the dashboard cannot read the run folder", "error", err)
		case anew || len(lines) > maxLines:
			d.streams.send(d.wholeRun())
		default:
			g := grown{Lines: []line{}, facts: d.factsOf()}
			for _, l := range lines {
				g.Lines = append(g.Lines, lineOf(l))
			}
			d.streams.send(d.message("grown", g))
		}
	}
	if status || d.samples() {
		d.streams.send(d.message("phase", d.current()))
	}
	if l, changed := d.take(false); changed {
		d.streams.send(d.message("playing", l))
	}
	lines, n := d.log.since(d.records)
	if d.records = n; len(lines) > 0 {
		d.streams.send(d.message("log", records{Lines: lines}))
	}
}

// wholeRun returns the message with the whole run. The caller holds reading.
func (d *Dashboard) wholeRun() message {
	return d.message("run", whole{report.NewData([]*report.Run{d.run}).Runs[0], d.factsOf()})
}

// first returns the messages with which a stream begins. The caller holds reading.
func (d *Dashboard) first() []message {
	var out []message
	if d.run != nil {
		out = append(out, d.wholeRun())
	}
	l, _ := d.take(true)
	return append(out, d.message("phase", d.current()), d.message("playing", l), d.message("log", records{true, d.log.until(d.records)}))
}

// samples reports whether the phase samples tokens, whose number changes without an event.
func (d *Dashboard) samples() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.phase.sampled != nil
}

// current returns the phase at this time.
func (d *Dashboard) current() phase {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, now := d.phase, d.o.Now()
	p.Seconds, p.RunLeft, p.Tokens = now.Sub(p.began).Seconds(), -1, -1
	left, _ := d.phase.eta.Left(now, p.share(p.N))
	p.Left = left.Seconds()
	if run, atLeast, ok := d.pace.Left(now, left); ok {
		p.RunLeft, p.AtLeast = run.Seconds(), atLeast
	}
	if p.sampled != nil {
		p.Tokens = p.sampled()
	}
	return p
}

// ending returns the message of the end of the run.
func (d *Dashboard) ending() message {
	d.reading.Lock()
	defer d.reading.Unlock()
	st := report.Status{State: report.Failed, Reason: "the run has ended before it opened its folder"}
	if d.run != nil {
		st = d.run.Status
	}
	return d.message("end", st)
}
