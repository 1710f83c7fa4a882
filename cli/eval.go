package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// evalOptions are the command line of `openmanus eval`.
type evalOptions struct {
	taskOptions
	JSON bool
}

func evalFlags() []cli.Flag { return append(taskFlags(), jsonFlag()) }

// parseEval reads the flags of evalFlags.
func parseEval(c *cli.Context) (evalOptions, error) {
	tasks, err := parseTasks(c)
	return evalOptions{taskOptions: tasks, JSON: c.Bool("json")}, err
}

// evalResult is what `openmanus eval --json` prints.
type evalResult struct {
	Env         string         `json:"env"`
	Tasks       int            `json:"tasks"`
	Samples     int            `json:"samples"`
	SuccessRate float64        `json:"success_rate"`
	MeanScore   float64        `json:"mean_score"`
	MeanTurns   float64        `json:"mean_turns"`
	Outcomes    map[string]int `json:"outcomes"`
}

// String returns the result on one line for people.
func (r evalResult) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d tasks x %d samples: success %.3f, mean score %.3f, mean turns %.1f",
		r.Env, r.Tasks, r.Samples, r.SuccessRate, r.MeanScore, r.MeanTurns)
	for i, o := range slices.Sorted(maps.Keys(r.Outcomes)) {
		sep := ", "
		if i == 0 {
			sep = "; "
		}
		fmt.Fprintf(&b, "%s%s %d", sep, o, r.Outcomes[o])
	}
	return b.String()
}

// printEval writes a result to standard output, as JSON where a script asked.
func (s *State) printEval(r evalResult, asJSON bool) error {
	if asJSON {
		return s.printJSON(r)
	}
	return s.print([]byte(r.String() + "\n"))
}
