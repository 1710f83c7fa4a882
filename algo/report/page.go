package report

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"path"
	"strings"
	"time"

	"github.com/openmanus/openmanus/algo/track"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

// Options configure a page.
type Options struct {
	Title string
	Made  string // text at the end of the page, such as the version of the program
	Now   time.Time
	Extra Extra
}

// Extra is the content that another package adds to the page. The page runs its script after page.js,
// which defines the constant report.
type Extra struct {
	HTML template.HTML
	CSS  template.CSS
	JS   template.JS
	// Connect allows the script to send requests to the server of the page.
	Connect bool
}

// The numbers of points that a page keeps of a metric in a chart and of any other metric.
const (
	chartPoints = 2000
	otherPoints = 400
)

// Data is the part of a page that its script draws.
type Data struct {
	Runs       []*Run            `json:"runs"`
	Charts     []Chart           `json:"charts"`
	TimePhases [][2]string       `json:"timePhases"`
	Meanings   map[string]string `json:"meanings"` // meanings of metrics by name
}

// NewData returns the data of a page with these runs. Long series are thinned.
func NewData(runs []*Run) Data {
	d := Data{Charts: Charts, TimePhases: TimePhases, Meanings: map[string]string{}}
	inChart := map[string]bool{}
	for _, c := range Charts {
		for _, m := range c.Metrics {
			inChart[string(c.Phase)+" "+m.Metric] = true
		}
	}
	for _, p := range TimePhases {
		inChart[string(track.PhaseTrain)+" "+track.Timing(p[0])] = true
	}
	for _, r := range runs {
		thin := *r
		thin.Series = map[track.Phase]map[string]*Series{}
		for phase, metrics := range r.Series {
			thin.Series[phase] = map[string]*Series{}
			for name, s := range metrics {
				n := otherPoints
				if inChart[string(phase)+" "+name] {
					n = chartPoints
				}
				thin.Series[phase][name] = s.Thin(n)
				if d.Meanings[name] == "" {
					d.Meanings[name] = Meaning(name)
				}
			}
		}
		d.Runs = append(d.Runs, &thin)
	}
	return d
}

// Meaning returns the meaning of a metric in track.Table, or "".
func Meaning(name string) string {
	for _, d := range track.Table {
		for _, pattern := range track.Expand(d.Names) {
			if ok, err := path.Match(pattern, name); ok && err == nil {
				return d.Meaning
			}
		}
	}
	return ""
}

// Write writes a page that shows the runs. It needs no other file and sends no requests.
func Write(w io.Writer, runs []*Run, o Options) error {
	connect := ""
	if o.Extra.Connect {
		connect = "connect-src 'self'; "
	}
	hashes := func(texts ...string) string {
		var b strings.Builder
		for _, text := range texts {
			if text != "" {
				sum := sha256.Sum256([]byte(text))
				fmt.Fprintf(&b, " 'sha256-%s'", base64.StdEncoding.EncodeToString(sum[:]))
			}
		}
		return b.String()
	}
	// The browser runs only the scripts and applies only the styles with these hashes, so that injected text remains text.
	policy := fmt.Sprintf("default-src 'none'; script-src%s; style-src%s; %sbase-uri 'none'; form-action 'none'",
		hashes(pageJS, string(o.Extra.JS)), hashes(pageCSS, string(o.Extra.CSS)), connect)
	v := view{
		Title: o.Title, Made: o.Made, Policy: policy, Extra: o.Extra, CSS: template.CSS(pageCSS), JS: template.JS(pageJS),
		Several: len(runs) > 1,
	}
	// html/template would turn an encoding error into an empty page.
	text, err := json.Marshal(NewData(runs))
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	v.Data = template.JS(text) // json.Marshal escapes the characters <, > and &
	for _, r := range runs {
		v.add(r, o.Now)
	}
	v.settings(runs)
	if err := pageTemplate.Execute(w, v); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// view is the page for its template.
type view struct {
	Title, Made, Policy string
	CSS                 template.CSS
	JS                  template.JS
	Extra               Extra
	Data                template.JS
	Several             bool
	Rows                []Row
	Validations         []validationRow
	Episodes            []episodeRow
	Settings            []settingRow
	Differing           int
}

type validationRow struct{ Run, Label, Env, Success, Interval, Score, Turns, Episodes string }

type episodeRow struct {
	Run string
	EpisodeLink
}

type settingRow struct {
	Difference
	Differs bool
}

func (v *view) add(r *Run, now time.Time) {
	v.Rows = append(v.Rows, FactsOf(r).Row(now))
	for _, val := range r.Validations {
		if val.Loss != nil {
			v.Validations = append(v.Validations, validationRow{r.Name, val.Label, fmt.Sprintf("held-out loss %.4f", *val.Loss), none, none, none, none, none})
		}
		for _, x := range val.Results {
			v.Validations = append(v.Validations, validationRow{r.Name, val.Label, x.Env, fmt.Sprintf("%.3f", x.Success), interval(x),
				fmt.Sprintf("%.3f", x.Score), fmt.Sprintf("%.1f", x.Turns), fmt.Sprintf("%.0f", x.Episodes)})
		}
	}
	for _, e := range r.Episodes {
		v.Episodes = append(v.Episodes, episodeRow{r.Name, e})
	}
}

// settings fills the table of the configuration: first the settings that differ, then the others.
func (v *view) settings(runs []*Run) {
	differs := map[string]bool{}
	for _, d := range Differences(runs) {
		differs[d.Key] = true
		v.Settings = append(v.Settings, settingRow{d, true})
	}
	v.Differing = len(v.Settings)
	if len(runs) == 0 {
		return
	}
	for _, s := range runs[0].Config {
		if differs[s.Key] {
			continue
		}
		values := make([]string, len(runs))
		for i := range values {
			values[i] = s.Value
		}
		v.Settings = append(v.Settings, settingRow{Difference{s.Key, values}, false})
	}
}
