package report

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/track"
)

// Run is the contents of a run folder.
type Run struct {
	Name   string `json:"name"`
	Folder string `json:"folder"`
	Status
	Steps       int                                `json:"steps"` // steps of the whole run; 0: unknown
	Series      map[track.Phase]map[string]*Series `json:"series"`
	Seconds     map[string]float64                 `json:"seconds"` // total time by phase, in seconds
	Validations []Validation                       `json:"validations"`
	Config      []Setting                          `json:"config"`
	Rollouts    []string                           `json:"-"` // names of the files of episodes, in the order of steps
	Episodes    []EpisodeLink                      `json:"episodes,omitempty"`

	offset int64               // bytes of metrics.jsonl that were read
	parsed []rundir.Validation // validations in metrics.jsonl
}

// Validation is a validation and its results.
type Validation struct {
	Label   string          `json:"label"`
	Step    int             `json:"step"`
	Loss    *float64        `json:"loss,omitempty"` // loss of held-out trajectories; nil: none
	Results []rundir.Result `json:"results"`
}

// EpisodeLink refers to an episode or to the episodes of a step on another page.
type EpisodeLink struct {
	Label string `json:"label"`
	Href  string `json:"href"`
	Note  string `json:"note,omitempty"`
}

// IsRun reports whether a folder is the folder of a run.
func IsRun(dir string) bool {
	folder := &rundir.Folder{Dir: dir}
	for _, path := range []string{folder.Metrics(), folder.Config()} {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// Open reads the run folder dir. The folder may be incomplete: a run that has just started
// has no metrics, and an old or copied folder may lack the log.
func Open(dir string) (*Run, error) {
	if !IsRun(dir) {
		return nil, fmt.Errorf("%s is not a run folder: it has neither metrics.jsonl nor config.toml", dir)
	}
	name := filepath.Base(dir)
	if abs, err := filepath.Abs(dir); err == nil {
		name = filepath.Base(abs)
	}
	r := &Run{Name: name, Folder: dir}
	text, err := os.ReadFile((&rundir.Folder{Dir: dir}).Config())
	if err == nil {
		r.Config, err = settings(text)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the configuration of run %s: %w", dir, err)
	}
	return r, r.Refresh()
}

// setting returns the value of a key in config.toml, or "".
func (r *Run) setting(key string) string {
	for _, s := range r.Config {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// Refresh reads the lines that metrics.jsonl has gained, and the state of the run.
func (r *Run) Refresh() error {
	_, _, err := r.Follow()
	return err
}

// Follow is Refresh. It returns the new lines. The result anew is true if the file was cut, as a
// resumed run does, and was read from its beginning.
func (r *Run) Follow() (lines []track.Line, anew bool, err error) {
	folder := &rundir.Folder{Dir: r.Folder}
	info, err := os.Stat(folder.Metrics())
	if err == nil && info.Size() < r.offset || r.Series == nil {
		r.Forget()
		anew = true
	}
	if err == nil {
		r.offset, err = track.ReadFrom(folder.Metrics(), r.offset, func(l track.Line) error {
			r.add(l)
			lines = append(lines, l)
			return nil
		})
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return lines, anew, err
	}
	if r.Status, err = StatusOf(r.Folder); err != nil {
		return lines, anew, err
	}
	r.Step = max(r.Step, r.lastStep())
	r.Steps = r.configuredSteps()
	if r.State == Finished {
		r.Steps = r.Step
	}
	r.labelValidations()
	r.Rollouts, err = rollouts(folder.Rollouts())
	return lines, anew, err
}

// configuredSteps returns the number of steps in config.toml, or 0 if it follows from the number of epochs.
func (r *Run) configuredSteps() int {
	key := "trainer.total_steps"
	if r.Supervised() {
		key = "sft.total_steps"
	}
	n, err := strconv.Atoi(r.setting(key))
	if err != nil { // an old or incomplete configuration
		return 0
	}
	return n
}

// Forget makes the next Follow read the metrics from their beginning.
func (r *Run) Forget() {
	r.offset, r.parsed = 0, nil
	r.Series, r.Seconds = nil, map[string]float64{}
}

// Supervised reports whether the run has only supervised steps so far.
func (r *Run) Supervised() bool {
	return r.Metric(track.PhaseTrain, track.SuccessRate) == nil && r.Metric(track.PhaseTrain, track.SFTLoss) != nil
}

// Metric returns the series of a metric in a phase, or nil if the run has no value of it.
func (r *Run) Metric(phase track.Phase, name string) *Series { return r.Series[phase][name] }

// lastStep returns the last training step with metrics.
func (r *Run) lastStep() int {
	last := 0.0
	for _, s := range r.Series[track.PhaseTrain] {
		last = max(last, s.X[len(s.X)-1])
	}
	return int(last)
}

// add adds a line of metrics.jsonl.
func (r *Run) add(l track.Line) {
	if r.Series == nil {
		r.Series = map[track.Phase]map[string]*Series{}
	}
	series := r.Series[l.Phase]
	if series == nil {
		series = map[string]*Series{}
		r.Series[l.Phase] = series
	}
	val, untrained := track.Metrics{}, track.Metrics{}
	for name, x := range l.Metrics {
		if short, ok := strings.CutPrefix(name, "untrained/"); ok {
			untrained[short] = x
			continue
		}
		if strings.HasPrefix(name, track.Validation+"/") {
			val[name] = x
		}
		if phase, ok := strings.CutPrefix(name, track.TimingSeconds+"/"); ok && name != track.TimingStep {
			r.Seconds[phase] += x
		}
		if series[name] == nil {
			series[name] = &Series{}
		}
		series[name].add(float64(l.Step), x)
	}
	if len(untrained) > 0 {
		r.parsed = append(r.parsed, rundir.Validation{Label: rundir.LabelUntrained, Step: l.Step, Metrics: untrained})
	}
	if len(val) > 0 {
		label := rundir.StepLabel(l.Step)
		if l.Step == 0 {
			label = rundir.LabelBefore
		}
		r.parsed = append(r.parsed, rundir.Validation{Label: label, Step: l.Step, Metrics: val})
	}
}

// labelValidations sets Validations. The last one of a finished run has the label "after".
func (r *Run) labelValidations() {
	r.Validations = nil
	for i, v := range r.parsed {
		if i == len(r.parsed)-1 && v.Step > 0 && r.State == Finished {
			v.Label = rundir.LabelAfter
		}
		out := Validation{Label: v.Label, Step: v.Step, Results: append([]rundir.Result{}, v.Results()...)}
		if loss, ok := v.Metrics[track.ValidationLoss]; ok {
			out.Loss = &loss
		}
		r.Validations = append(r.Validations, out)
	}
}

// rollouts returns the names of the files of episodes in a folder, in the order of steps.
// The validation of a step follows its training episodes.
func rollouts(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the episodes of the run: %w", err)
	}
	var names []string
	for _, e := range entries {
		if strings.Contains(e.Name(), ".jsonl") && e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	slices.SortStableFunc(names, func(a, b string) int {
		x, _ := rundir.RolloutStep(a)
		y, _ := rundir.RolloutStep(b)
		return cmp.Or(x-y, strings.Compare(a, b))
	})
	return names, nil
}
