package rundir

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/algo/track"
)

// Labels of validations.
const (
	LabelUntrained = "untrained" // validation before a warm start
	LabelBefore    = "before"    // validation before the first step
	LabelAfter     = "after"     // validation after the last step
)

// StepLabel returns the label of a validation between LabelBefore and LabelAfter.
func StepLabel(step int) string { return fmt.Sprintf("step %d", step) }

// Validation is the result of one validation, kept for the final table.
type Validation struct {
	Label   string             `json:"label"`
	Step    int                `json:"step"`
	Metrics map[string]float64 `json:"metrics"`
}

// bestLoss is the only metric of BestMetrics for which lower is better.
const bestLoss = "loss"

// BestMetrics lists the validation metrics that can select the best checkpoint.
var BestMetrics = []string{"success_rate", "mean_score", bestLoss}

// Best identifies the checkpoint with the best validation so far. Pruning never
// removes it, and the run folder's link best points to it.
type Best struct {
	Metric string  `json:"metric"`
	Value  float64 `json:"value"`
	Step   int     `json:"step"`
}

// overall returns the mean of a metric over the episodes of all environments. ok
// is false if the validation does not have this metric.
func (v Validation) overall(metric string) (value float64, ok bool) {
	if metric == bestLoss {
		value, ok = v.Metrics[track.ValidationLoss]
		return value, ok
	}
	var episodes float64
	for _, name := range slices.Sorted(maps.Keys(v.Metrics)) { // sums must not depend on map order
		env, found := strings.CutSuffix(strings.TrimPrefix(name, track.Validation+"/"), "/"+metric)
		if !found {
			continue
		}
		n := v.Metrics[track.Validation+"/"+env+"/episodes"]
		value += n * v.Metrics[name]
		episodes += n
	}
	if episodes == 0 {
		return 0, false
	}
	return value / episodes, true
}

// Next returns the best checkpoint after validation v, rated by metric: the checkpoint
// of v if the value of v is better than the value of b, else b. An untrained model is not rated, since
// it has no checkpoint. b may be nil.
func (b *Best) Next(v Validation, metric string) *Best {
	if metric == "" || v.Label == LabelUntrained {
		return b
	}
	value, ok := v.overall(metric)
	if !ok || math.IsNaN(value) || b != nil && b.Metric == metric && !b.beatenBy(value) {
		return b
	}
	return &Best{Metric: metric, Value: value, Step: v.Step}
}

func (b *Best) beatenBy(value float64) bool {
	if b.Metric == bestLoss {
		return value < b.Value
	}
	return value > b.Value
}

// AddTo writes the value and the step to m. It does nothing if b is nil.
func (b *Best) AddTo(m map[string]float64) {
	if b != nil {
		m[track.BestValue], m[track.BestStep] = b.Value, float64(b.Step)
	}
}

// CheckBestMetric returns an error if name is not one of BestMetrics. The empty
// name, with which no best checkpoint is kept, is valid.
func CheckBestMetric(name string) error {
	if name != "" && !slices.Contains(BestMetrics, name) {
		return fmt.Errorf("best_metric = %q: want one of %s", name, strings.Join(BestMetrics, ", "))
	}
	return nil
}
