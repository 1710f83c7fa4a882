package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/openmanus/openmanus/algo/track"
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
		fmt.Fprintf(&b, "\n  %-30s %11s %11s %11s %11s\n", "metric", "first", "last", "lowest", "highest")
		for _, v := range s.Metrics {
			fmt.Fprintf(&b, "  %-30s %11.4g %11.4g %11.4g %11.4g\n", v.Metric, v.First, v.Last, v.Low, v.High)
		}
	}
	writeValidations(&b, s.Validations)
	writeSeconds(&b, s.Phases)
	return b.String()
}

func writeValidations(b *strings.Builder, list []Validation) {
	begun := false
	for _, v := range list {
		for _, r := range v.Results {
			if !begun {
				fmt.Fprintf(b, "\n  %-12s %-10s %9s  %-15s %9s %9s %9s\n", "when", "env", "success", "95% interval", "score", "turns", "episodes")
				begun = true
			}
			fmt.Fprintf(b, "  %-12s %-10s %9.3f  %-15s %9.3f %9.1f %9.0f\n", v.Label, r.Env, r.Success,
				fmt.Sprintf("%.3f - %.3f", r.Low, r.High), r.Score, r.Turns, r.Episodes)
		}
		if v.Loss != nil {
			fmt.Fprintf(b, "  %-12s held-out loss %.4f\n", v.Label, *v.Loss)
		}
	}
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
	fmt.Fprintf(b, "\n  %-30s %14s %6s\n", "phase", "time", "share")
	for _, name := range names {
		fmt.Fprintf(b, "  %-30s %14s %5.1f%%\n", phaseLabel(name), Duration(time.Duration(seconds[name]*float64(time.Second))), 100*seconds[name]/total)
	}
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
