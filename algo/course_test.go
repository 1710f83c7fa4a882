package algo

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/algo/curriculum"
	"github.com/openmanus/openmanus/algo/track"
)

// courseRun returns a run with a growing turn limit, in which a task rests after a failure.
func courseRun(t *testing.T) *rig {
	r := newRig(t)
	r.steps = 4
	r.course = Course{
		Stages:  curriculum.Stages{{From: 1, Turns: 1}, {From: 3, Turns: 2}},
		Sampler: curriculum.Options{Seed: 9, BySuccess: true, Failures: 1, Rest: 2},
	}
	return r
}

// TestCourse checks that every stage has its turn limit, and that a killed and
// resumed run draws the same tasks as an uninterrupted run.
func TestCourse(t *testing.T) {
	r := courseRun(t)
	must(t, r.fit(t, t.Context(), t.Context()))
	want := drawn(t, r.dir, r.steps)
	undisturbed := r.result(t)
	for _, m := range undisturbed.Metrics {
		step := int(m["step"])
		if _, trained := m["training/global_step"]; !trained {
			continue
		}
		limit := map[bool]float64{true: 1, false: 2}[step < 3]
		if m["curriculum/max_turns"] != limit || m["env/number_of_actions/max"] > limit {
			t.Errorf("step %d: limit %v and at most %v turns, want the limit %v", step, m["curriculum/max_turns"], m["env/number_of_actions/max"], limit)
		}
		if seen := m["curriculum/tasks_seen"]; seen < 2 || seen > 3 {
			t.Errorf("step %d: %v tasks were seen, want 2 or 3", step, seen)
		}
	}

	resumed := courseRun(t)
	hard, kill := context.WithCancel(t.Context())
	defer kill()
	resumed.onWrite = func(l track.Line) error {
		if isStep(l, 3) {
			kill()
		}
		return hard.Err()
	}
	if err := resumed.fit(t, hard, hard); err == nil {
		t.Fatal("the run was not killed")
	}
	resumed.undisturbed()
	must(t, resumed.fit(t, t.Context(), t.Context()))
	if d := cmp.Diff(want, drawn(t, resumed.dir, resumed.steps)); d != "" {
		t.Errorf("the tasks differ from the tasks of an undisturbed run:\n%s", d)
	}
	if d := cmp.Diff(undisturbed, resumed.result(t)); d != "" {
		t.Errorf("the final state differs from the state of an undisturbed run:\n%s", d)
	}
}

// drawn returns the tasks of every step.
func drawn(t *testing.T, dir string, steps int) []string {
	t.Helper()
	var out []string
	for step := 1; step <= steps; step++ {
		var names []string
		for _, e := range dumped(t, fmt.Sprintf("%s/rollouts/step_%d.jsonl", dir, step)) {
			if e.Sample == 0 {
				names = append(names, e.Task.ID)
			}
		}
		out = append(out, strings.Join(names, " "))
	}
	return out
}
