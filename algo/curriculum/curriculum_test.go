package curriculum

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStages(t *testing.T) {
	s := Stages{{From: 3, Turns: 5}, {From: 10, Turns: 8}, {From: 20, Turns: 50}}
	for step, want := range map[int]int{1: 20, 2: 20, 3: 5, 9: 5, 10: 8, 19: 8, 20: 20, 1000: 20} {
		if got := s.Turns(step, 20); got != want {
			t.Errorf("step %d: %d turns, want %d", step, got, want)
		}
	}
	if got := (Stages)(nil).Turns(7, 20); got != 20 {
		t.Errorf("without stages the limit is %d turns, want 20", got)
	}
}

// inOrder returns a function that returns the n tasks in the order of the data, again and again.
func inOrder(n int) func() int {
	at := -1
	return func() int { at++; return at % n }
}

// TestBySuccess checks that tasks that succeed sometimes are drawn more often than tasks that
// always or never succeed, but every task is drawn.
func TestBySuccess(t *testing.T) {
	const tasks = 12
	s := New(tasks, Options{Seed: 7, BySuccess: true})
	counts := make([]int, tasks)
	for step := range 400 {
		drawn := s.Draw(step, 3, nil)
		for n, i := range drawn {
			if slices.Contains(drawn[:n], i) {
				t.Fatalf("step %d draws a task twice: %v", step, drawn)
			}
			counts[i]++
			s.Report(step, i, 8, map[int]int{0: 0, 1: 8, 2: 4}[i%3]) // successes: none, all, half
		}
	}
	var kinds [3]int
	for i, n := range counts {
		kinds[i%3] += n
		if n == 0 {
			t.Errorf("task %d was never drawn", i)
		}
	}
	if kinds[2] < 2*kinds[0] || kinds[2] < 2*kinds[1] {
		t.Errorf("tasks that succeed never, always and half of the time were drawn %v times, want the last at least twice as often", kinds)
	}
	// If more tasks are requested than exist, every task is drawn once before a task is drawn again.
	all := s.Draw(400, tasks+2, nil)
	first := slices.Sorted(slices.Values(all[:tasks]))
	if len(all) != tasks+2 || len(slices.Compact(first)) != tasks {
		t.Errorf("drew %v, want every task once and two tasks again", all)
	}
}

func TestRest(t *testing.T) {
	s := New(4, Options{Failures: 2, Rest: 3})
	next := inOrder(4)
	var got []string
	for step := 1; step <= 8; step++ {
		var names []string
		for _, i := range s.Draw(step, 2, next) {
			names = append(names, string(rune('a'+i)))
			success := 1
			if i == 1 { // b never succeeds
				success = 0
			}
			s.Report(step, i, 4, success)
		}
		got = append(got, strings.Join(names, ""))
	}
	// b fails in steps 1 and 3, rests in 4, 5 and 6, and is then drawn again.
	if want := []string{"ab", "cd", "ab", "cd", "ac", "da", "bc", "da"}; !slices.Equal(got, want) {
		t.Errorf("drew %v, want %v", got, want)
	}
	if m := s.Metrics(); m["curriculum/tasks_seen"] != 4 || m["curriculum/tasks_resting"] != 0 {
		t.Errorf("metrics %v, want 4 tasks seen and 0 resting", m)
	}

	// A success resets the count of failures; episodes lost to the infrastructure do not count.
	s = New(1, Options{Failures: 2, Rest: 3})
	for step, c := range [][2]int{{4, 0}, {4, 1}, {4, 0}, {0, 0}} {
		s.Report(step, 0, c[0], c[1])
	}
	if s.seen[0].Until != 0 || s.seen[0].Failed != 1 {
		t.Errorf("task 0 has the results %+v, want no rest and 1 failure", s.seen[0])
	}
	// If all tasks rest, they are drawn nevertheless.
	s.Report(5, 0, 4, 0)
	if got := s.Draw(6, 2, inOrder(1)); s.seen[0].Until != 8 || !slices.Equal(got, []int{0, 0}) {
		t.Errorf("task 0 has the results %+v and the draw is %v, want a rest until step 8 and [0 0]", s.seen[0], got)
	}
}

// TestResumed checks that a resumed sampler draws the same tasks as an uninterrupted one.
func TestResumed(t *testing.T) {
	for _, o := range []Options{{Seed: 3, BySuccess: true, Failures: 2, Rest: 2}, {Failures: 1, Rest: 3}} {
		play := func(s *Sampler, from, to int, next func() int) (all [][]int) {
			for step := from; step < to; step++ {
				drawn := s.Draw(step, 2, next)
				for _, i := range drawn {
					s.Report(step, i, 4, (step+i)%3)
				}
				all = append(all, drawn)
			}
			return all
		}
		next := inOrder(5)
		uninterrupted := New(5, o)
		want := play(uninterrupted, 1, 30, next)

		next = inOrder(5)
		first := New(5, o)
		got := play(first, 1, 15, next)
		text, err := json.Marshal(first.State())
		if err != nil {
			t.Fatal(err)
		}
		var st State
		if err := json.Unmarshal(text, &st); err != nil {
			t.Fatal(err)
		}
		second := New(5, o)
		if err := second.Restore(st); err != nil {
			t.Fatal(err)
		}
		got = append(got, play(second, 15, 30, next)...)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%+v:\n%s", o, d)
		}
		if d := cmp.Diff(uninterrupted.State(), second.State()); d != "" {
			t.Errorf("%+v:\n%s", o, d)
		}
	}
	for _, bad := range []Seen{{Task: 5}, {Task: -1}, {Task: 1, Episodes: 1, Successes: 2}, {Task: 1, Episodes: -1}} {
		if err := New(5, Options{}).Restore(State{Seen: []Seen{bad}}); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}
