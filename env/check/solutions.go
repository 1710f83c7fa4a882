package check

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// This file contains recorded solutions with the replies of AgentGym's own servers.
// recorded/record.py recorded them.

//go:embed recorded/solutions.json
var solutionsText []byte

// solution is a recorded solution of a task.
type solution struct {
	Reset json.RawMessage
	Steps []struct {
		Action string
		Reply  json.RawMessage
	}
}

// solutions are the recordings by environment and task.
var solutions = func() map[string]struct{ Tasks map[int]solution } {
	var all map[string]struct{ Tasks map[int]solution }
	if err := json.Unmarshal(solutionsText, &all); err != nil {
		panic(fmt.Sprintf("recorded/solutions.json: %v", err))
	}
	return all
}()

// solved returns the recorded solutions of an environment. The replies of its server
// must contain the observation under the key "observation".
func solved(name string) []ending {
	tasks := solutions[name].Tasks
	var all []ending
	for _, task := range slices.Sorted(maps.Keys(tasks)) {
		if s := tasks[task]; len(s.Steps) > 0 {
			all = append(all, s.ending(task))
		}
	}
	return all
}

func (s solution) ending(task int) ending {
	mustDecode := func(raw json.RawMessage) any {
		v, err := decode(raw)
		if err != nil {
			panic(err) // solutions was decoded before
		}
		return v
	}
	reset, last := mustDecode(s.Reset), s.Steps[len(s.Steps)-1]
	start := observationOf(reset) + bareText(reset)
	// Servers of 2024 do not list the actions.
	start, _, _ = strings.Cut(start, "\nAvailable actions: ")
	want := environment{textKey: "observation", doneKey: "done"}.playedOf(mustDecode(last.Reply))
	return ending{
		tasks: []int{task}, only: true, wins: true, exact: true, start: start,
		action: func(_ *checker, _ string, n int) string {
			if n >= len(s.Steps) {
				return ""
			}
			return s.Steps[n].Action
		},
		mustEnd: atStep(len(s.Steps)),
		checkReward: func(p played) string {
			switch {
			case !near(p.reward, want.reward):
				return fmt.Sprintf("reward %g, want %g", p.reward, want.reward)
			case !near(p.score, want.score):
				return fmt.Sprintf("score %g, want %g", p.score, want.score)
			}
			return ""
		},
	}
}

// near reports whether two rewards are equal up to decimal rounding.
func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

// begins reports whether text begins with start, ignoring differences in white
// space.
func begins(text, start string) bool {
	one := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	return strings.HasPrefix(one(text), one(start))
}
