package cli

import (
	"strings"
	"testing"

	"github.com/openmanus/openmanus/algo/rundir"
)

// TestOutcomeTable checks the labels of an extended run: if several validations have the label "after", only the last validation keeps this label.
func TestOutcomeTable(t *testing.T) {
	v := func(label string, step int) rundir.Validation {
		return rundir.Validation{Label: label, Step: step, Metrics: map[string]float64{
			"val/maze/success_rate": .5, "val/maze/mean_score": .5, "val/maze/mean_turns": 3, "val/maze/episodes": 8,
		}}
	}
	lines := strings.Split(strings.TrimRight(outcomeTable([]rundir.Validation{v(rundir.LabelBefore, 0), v(rundir.LabelAfter, 2), v(rundir.LabelAfter, 3)}), "\n"), "\n")
	if len(lines) != 4 {
		t.Fatalf("%q", lines)
	}
	for i, want := range []string{"when", "before", "step 2", "after"} {
		if !strings.HasPrefix(strings.TrimSpace(lines[i]), want+" ") {
			t.Errorf("line %d is %q, want %s", i, lines[i], want)
		}
	}
	if !strings.Contains(lines[1], "0.500  0.215 - 0.785") { // the Wilson interval of 4 of 8
		t.Errorf("%q", lines[1])
	}
}
