package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/data"
)

func evalCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:  "eval",
		Usage: "play tasks and report how many were solved",
		Flags: evalFlags(),
	}, 0, runEval)
}

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

func runEval(ctx context.Context, s *State, c *cli.Context) (err error) {
	o, err := parseEval(c)
	if err != nil {
		return err
	}
	p, err := s.openPlaying(ctx, o.taskOptions)
	defer func() { err = errors.Join(err, p.close()) }()
	if err != nil {
		return err
	}
	episodes, err := s.play(ctx, p, o.taskOptions, nil)
	if err != nil {
		return err
	}
	return s.printEval(evaluate(o, len(p.tasks), episodes), o.JSON)
}

// evaluate sums episodes up. Those lost to the infrastructure count among the
// outcomes and nowhere else.
func evaluate(o evalOptions, tasks int, episodes []*data.Episode) evalResult {
	r := evalResult{Env: o.Env, Tasks: tasks, Samples: o.Samples, Outcomes: map[string]int{}}
	n := 0.0
	for _, ep := range episodes {
		r.Outcomes[string(ep.Outcome)]++
		if !ep.Outcome.Trainable() {
			continue
		}
		n++
		r.MeanScore += ep.Reward
		r.MeanTurns += float64(len(ep.Turns))
		if ep.Outcome == data.Success {
			r.SuccessRate++
		}
	}
	if n > 0 {
		r.SuccessRate /= n
		r.MeanScore /= n
		r.MeanTurns /= n
	}
	return r
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
