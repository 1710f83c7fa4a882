package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/track"
)

// Facts are the main facts about a run.
type Facts struct {
	Name    string    `json:"name"`
	Folder  string    `json:"folder"`
	State   State     `json:"state"`
	Reason  string    `json:"reason,omitempty"`
	Step    int       `json:"step"`
	Steps   int       `json:"steps"`             // steps of the whole run; 0: unknown
	Success *float64  `json:"success,omitempty"` // success rate of the last training step
	Last    *AtStep   `json:"last_validation,omitempty"`
	Best    *AtStep   `json:"best_validation,omitempty"`
	Seconds float64   `json:"seconds"` // sum of the phases
	Began   time.Time `json:"began,omitzero"`
	Updated time.Time `json:"updated,omitzero"`
}

// AtStep is the result of a validation over all environments.
type AtStep struct {
	Step int `json:"step"`
	rundir.Result
}

// FactsOf returns the facts about a run. The best validation is the first with the highest
// success rate, without that of an untrained model.
func FactsOf(r *Run) Facts {
	f := Facts{Name: r.Name, Folder: r.Folder, State: r.State, Reason: r.Reason, Step: r.Step, Steps: r.Steps, Began: r.Began, Updated: r.Updated}
	if s := r.Metric(track.PhaseTrain, track.SuccessRate); s != nil {
		if x := s.Last(); !math.IsNaN(x) {
			f.Success = &x
		}
	}
	for _, v := range r.Validations {
		if len(v.Results) == 0 {
			continue
		}
		at := &AtStep{v.Step, v.Results[len(v.Results)-1]}
		f.Last = at
		if v.Label != rundir.LabelUntrained && (f.Best == nil || at.Success > f.Best.Success) {
			f.Best = at
		}
	}
	for _, s := range r.Seconds {
		f.Seconds += s
	}
	return f
}

// Row is the facts as the text of a line of a table. Values that a run does not have are "-".
type Row struct {
	Name     string `json:"name"`
	State    string `json:"state"`
	Reason   string `json:"reason"`
	Steps    string `json:"steps"`    // finished steps, and all steps if their number is known: 8/24
	Success  string `json:"success"`  // success rate of the last training step
	Last     string `json:"last"`     // success rate of the last validation
	Interval string `json:"interval"` // 95 % interval of Last
	Best     string `json:"best"`     // best success rate of a validation, with its step
	Time     string `json:"time"`     // sum of the phases
	Updated  string `json:"updated"`  // age of the newest change
}

// none stands for a value that a run does not have.
const none = "-"

// Row returns the facts as text.
func (f Facts) Row(now time.Time) Row {
	row := Row{
		Name: f.Name, State: string(f.State), Reason: f.Reason, Steps: fmt.Sprint(f.Step), Success: none, Last: none, Interval: none, Best: none,
		Time: Duration(time.Duration(f.Seconds * float64(time.Second))), Updated: none,
	}
	if f.Steps > 0 {
		row.Steps += fmt.Sprintf("/%d", f.Steps)
	}
	if f.Success != nil {
		row.Success = fmt.Sprintf("%.3f", *f.Success)
	}
	if f.Last != nil {
		row.Last, row.Interval = fmt.Sprintf("%.3f", f.Last.Success), interval(f.Last.Result)
	}
	if f.Best != nil {
		row.Best = fmt.Sprintf("%.3f at step %d", f.Best.Success, f.Best.Step)
	}
	if !f.Updated.IsZero() {
		row.Updated = age(now.Sub(f.Updated))
	}
	return row
}

func interval(r rundir.Result) string { return fmt.Sprintf("%.3f to %.3f", r.Low, r.High) }

// age formats the time since a change with its largest unit: 3 h ago.
func age(d time.Duration) string {
	return strings.Join(strings.Fields(Duration(d))[:2], " ") + " ago"
}

// Duration formats a duration with its two largest units: 3 h 20 min.
func Duration(d time.Duration) string {
	s := int64(math.Round(max(0, d.Seconds())))
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%d min %d s", s/60, s%60)
	case s < 48*3600:
		return fmt.Sprintf("%d h %d min", s/3600, s/60%60)
	}
	return fmt.Sprintf("%d days", s/86400)
}
