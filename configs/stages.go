package configs

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/openmanus/openmanus/data/registry"
)

// Stage is an entry of curriculum.max_turns.
type Stage struct{ From, Turns int }

// ParseStages reads entries such as "100:10", which limits turns to 10 from step 100 on.
func ParseStages(entries []string) ([]Stage, error) {
	var out []Stage
	for _, e := range entries {
		step, turns, ok := strings.Cut(e, ":")
		from, err := strconv.Atoi(step)
		most, err2 := strconv.Atoi(turns)
		if !ok || err != nil || err2 != nil || from < 1 || most < 1 {
			return nil, fmt.Errorf("%q is not a stage: write STEP:TURNS, such as \"100:10\" for 10 turns from step 100 on", e)
		}
		if n := len(out); n > 0 && out[n-1].From >= from {
			return nil, fmt.Errorf("%q does not come after %q: give the stages in the order of their steps", e, entries[n-1])
		}
		out = append(out, Stage{from, most})
	}
	return out, nil
}

var stages = registry.Range{Allowed: "STEP:TURNS, in the order of the steps", Check: func(v any) string {
	if _, err := ParseStages(v.([]string)); err != nil {
		return err.Error()
	}
	return ""
}}

// curriculumKeys are the keys of [curriculum].
var curriculumKeys = []entry{
	ready("curriculum.max_turns", nil, "turns of a training episode in stages, such as [\"1:5\", \"100:10\"]: 5 from the first step, 10 from step 100 on; at most the environment's limit, which validation always uses; empty: that limit", stages),
	ready("curriculum.sampler", "uniform", "uniform: every task once an epoch; success_rate: tasks with a success rate near one half are drawn most often", oneOf([]string{"uniform", "success_rate"})),
	ready("curriculum.failures", 0, "consecutive draws of a task without a success after which the task is not drawn for rest_steps steps; 0: never", atLeast(0)),
	ready("curriculum.rest_steps", 20, "number of steps for which such a task is not drawn", atLeast(1), above0("curriculum.failures")),
}
