package cli

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/algo/rundir"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// outcomeTable shows the validations of a run, with 95 % Wilson intervals of
// the success rates (Wilson 1927): how far other episodes of these tasks may
// be from them. A run that was lengthened has an end before the last.
func outcomeTable(validations []rundir.Validation) string {
	var b strings.Builder
	row := func(cells ...string) {
		fmt.Fprintf(&b, "  %-12s %-10s %9s  %-15s %9s %9s %9s\n", cells[0], cells[1], cells[2], cells[3], cells[4], cells[5], cells[6])
	}
	for i, v := range validations {
		if v.Label == rundir.LabelAfter && i < len(validations)-1 {
			v.Label = rundir.StepLabel(v.Step)
		}
		for _, r := range resultsOf(v) {
			if b.Len() == 0 {
				row("when", "env", "success", "95% interval", "score", "turns", "episodes")
			}
			lo, hi := wilson(r.success, r.episodes)
			row(v.Label, r.env, fmt.Sprintf("%.3f", r.success), fmt.Sprintf("%.3f - %.3f", lo, hi),
				fmt.Sprintf("%.3f", r.score), fmt.Sprintf("%.1f", r.turns), fmt.Sprintf("%.0f", r.episodes))
		}
	}
	return b.String()
}

// wilson is the 95 % score interval of a share p of n trials.
func wilson(p, n float64) (lo, hi float64) {
	if n == 0 {
		return 0, 1
	}
	const z = 1.959963984540054
	centre := (p + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return max(0, centre-half), min(1, centre+half)
}
