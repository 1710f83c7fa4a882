package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/internal/textwidth"
)

// Values summarises a metric over a run.
type Values struct {
	Metric string
	First  float64
	Last   float64
	Low    float64
	High   float64
}

// MarshalJSON encodes the values; numbers that JSON lacks are null.
func (v Values) MarshalJSON() ([]byte, error) {
	name, err := json.Marshal(v.Metric)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"metric":%s,"first":%s,"last":%s,"low":%s,"high":%s}`, name, number(v.First), number(v.Last), number(v.Low), number(v.High)), nil
}

func number(x float64) []byte {
	list := numbers([]float64{x}, 15)
	return list[1 : len(list)-1]
}

// values summarises the series s. ok is false if it has no finite value.
func values(metric string, s *Series) (v Values, ok bool) {
	v = Values{Metric: metric, Low: math.Inf(1), High: math.Inf(-1)}
	for _, y := range s.Y {
		if math.IsNaN(y) {
			continue
		}
		if !ok {
			v.First, ok = y, true
		}
		v.Last, v.Low, v.High = y, min(v.Low, y), max(v.High, y)
	}
	return v, ok
}

// Summary is a run in numbers.
type Summary struct {
	Facts
	Metrics     []Values           `json:"metrics"` // metrics of the charts, over the training steps
	Validations []Validation       `json:"validations"`
	Phases      map[string]float64 `json:"phases"` // total seconds by phase
}

// Summarize returns the summary of a run.
func Summarize(r *Run) Summary {
	s := Summary{Facts: FactsOf(r), Validations: r.Validations, Phases: r.Seconds}
	seen := map[string]bool{}
	for _, c := range Charts {
		for _, m := range c.Metrics {
			series := r.Metric(track.PhaseTrain, m.Metric)
			if c.Phase != track.PhaseTrain || series == nil || seen[m.Metric] {
				continue
			}
			seen[m.Metric] = true
			if v, ok := values(m.Metric, series); ok {
				s.Metrics = append(s.Metrics, v)
			}
		}
	}
	return s
}

// Text returns the summary for a terminal.
func (s Summary) Text(now time.Time) string {
	var b strings.Builder
	row := s.Row(now)
	fmt.Fprintf(&b, "%s: %s, step %s, %s in phases, last change %s\n  folder %s\n", s.Name, s.State, row.Steps, row.Time, row.Updated, s.Folder)
	if s.Reason != "" {
		fmt.Fprintf(&b, "  reason: %s\n", s.Reason)
	}
	if len(s.Metrics) > 0 {
		rows := [][]string{{"metric", "first", "last", "lowest", "highest"}}
		for _, v := range s.Metrics {
			row := []string{v.Metric}
			for _, x := range []float64{v.First, v.Last, v.Low, v.High} {
				row = append(row, fmt.Sprintf("%.4g", x))
			}
			rows = append(rows, row)
		}
		b.WriteString("\n" + textwidth.Table("lrrrr", rows))
	}
	writeValidations(&b, s.Validations)
	writeSeconds(&b, s.Phases)
	return b.String()
}

func writeValidations(b *strings.Builder, list []Validation) {
	rows := [][]string{{"when", "env", "success", "95% interval", "score", "turns", "episodes"}}
	losses := [][]string{{"when", "held-out loss"}}
	for _, v := range list {
		for _, r := range v.Results {
			rows = append(rows, append([]string{v.Label}, cells(r)...))
		}
		if v.Loss != nil {
			losses = append(losses, []string{v.Label, fmt.Sprintf("%.4f", *v.Loss)})
		}
	}
	if len(rows) > 1 {
		b.WriteString("\n" + textwidth.Table("llrrrrr", rows))
	}
	if len(losses) > 1 {
		b.WriteString("\n" + textwidth.Table("lr", losses))
	}
}

// cells returns the cells of a table of results, from the environment on.
func cells(r rundir.Result) []string {
	return []string{r.Env, fmt.Sprintf("%.3f", r.Success), fmt.Sprintf("%.3f - %.3f", r.Low, r.High),
		fmt.Sprintf("%.3f", r.Score), fmt.Sprintf("%.1f", r.Turns), fmt.Sprintf("%.0f", r.Episodes)}
}

// writeSeconds lists the phases by their share of the time.
func writeSeconds(b *strings.Builder, seconds map[string]float64) {
	total, names := 0.0, []string{}
	for name, s := range seconds {
		total += s
		names = append(names, name)
	}
	if total == 0 {
		return
	}
	slices.SortFunc(names, func(x, y string) int {
		return cmp.Or(cmp.Compare(seconds[y], seconds[x]), strings.Compare(x, y))
	})
	rows := [][]string{{"phase", "time", "share"}}
	for _, name := range names {
		rows = append(rows, []string{phaseLabel(name), Duration(time.Duration(seconds[name] * float64(time.Second))), fmt.Sprintf("%.1f%%", 100*seconds[name]/total)})
	}
	b.WriteString("\n" + textwidth.Table("lrr", rows))
}

// phaseLabel returns the label of a phase in the chart of time, or its name.
func phaseLabel(name string) string {
	for _, p := range TimePhases {
		if p[0] == name {
			return p[1]
		}
	}
	return name
}
