package algo

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/algo/track"
)

// bestLoss is the one of BestMetrics of which less is better.
const bestLoss = "loss"

// BestMetrics are the validation metrics by which checkpoints can be compared.
var BestMetrics = []string{"success_rate", "mean_score", bestLoss}

// Best is the checkpoint with the best validation so far. It is kept whatever
// the number of newer ones, and the run folder's link `best` leads to it.
type Best struct {
	Metric string  `json:"metric"`
	Value  float64 `json:"value"`
	Step   int     `json:"step"`
}

// overall is the mean of a metric over the episodes of all environments.
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

// rate makes the weights as they are the best if their validation says so. Of
// equals the earlier stays. The weights before a warm start are not rated:
// there is no checkpoint of them.
func (t *Trainer) rate(v Validation) {
	if t.o.BestMetric == "" || v.Label == LabelUntrained {
		return
	}
	value, ok := v.overall(t.o.BestMetric)
	if b := t.state.Best; !ok || math.IsNaN(value) || b != nil && b.Metric == t.o.BestMetric && !b.beaten(value) {
		return
	}
	t.state.Best = &Best{Metric: t.o.BestMetric, Value: value, Step: v.Step}
	t.unsaved = true
}

func (b *Best) beaten(value float64) bool {
	if b.Metric == bestLoss {
		return value < b.Value
	}
	return value > b.Value
}

// bestNow reports whether the best weights are those of this step: they are
// saved then, whatever the cadence.
func (t *Trainer) bestNow() bool { return t.state.Best != nil && t.state.Best.Step == t.state.Step }

func (b *Best) metrics(m Metrics) {
	if b != nil {
		m[track.BestValue], m[track.BestStep] = b.Value, float64(b.Step)
	}
}

func checkBestMetric(name string) error {
	if name != "" && !slices.Contains(BestMetrics, name) {
		return fmt.Errorf("checkpoints cannot be compared by %q, only by %s", name, strings.Join(BestMetrics, ", "))
	}
	return nil
}
