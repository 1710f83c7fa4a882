package eval

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/data"
)

// Trial is the result of one episode.
type Trial struct {
	Outcome data.Outcome `json:"outcome"`
	Score   float64      `json:"score"`
	Turns   int          `json:"turns"`
}

// lost reports whether a failure of a server or the engine ended the trial.
func (t Trial) lost() bool { return !t.Outcome.Trainable() }

// Task is one task with all its trials.
type Task struct {
	ID     string `json:"id"` // "ID#2" for the second occurrence of a task in the list
	Family string `json:"family,omitempty"`
	// Start is the digest of the first observation, "" if it is unknown or differs
	// between trials.
	Start  string  `json:"start,omitempty"`
	Trials []Trial `json:"trials"`
}

// Tasks groups episodes by task, in the order of their first episodes. The function family
// returns the family of a task index, and is nil for environments without families.
func Tasks(episodes []*data.Episode, family func(index int) string) []Task {
	var out []Task
	at := map[string]int{} // for each uid, the index in out
	starts := map[int][]string{}
	times := map[string]int{} // occurrences by task id
	for _, ep := range episodes {
		i, ok := at[ep.UID]
		if !ok {
			i = len(out)
			at[ep.UID] = i
			t := Task{ID: ep.Task.ID}
			times[t.ID]++
			if n := times[t.ID]; n > 1 {
				t.ID = fmt.Sprintf("%s#%d", t.ID, n)
			}
			if family != nil {
				t.Family = family(ep.Task.Index)
			}
			out = append(out, t)
		}
		if ep.Outcome.Trainable() && ep.FirstObservation != "" {
			starts[i] = append(starts[i], Digest([]byte(ep.FirstObservation)))
		}
		out[i].Trials = append(out[i].Trials, Trial{Outcome: ep.Outcome, Score: ep.Reward, Turns: len(ep.Turns)})
	}
	for i, digests := range starts {
		if len(slices.Compact(digests)) == 1 {
			out[i].Start = digests[0]
		}
	}
	return out
}

// Tally counts episodes by their outcome.
type Tally map[data.Outcome]int

// Episodes counts all episodes.
func (t Tally) Episodes() int {
	n := 0
	for _, k := range t {
		n += k
	}
	return n
}

// Lost counts the episodes lost to failures of servers or the engine.
func (t Tally) Lost() int {
	n := 0
	for outcome, k := range t {
		if !outcome.Trainable() {
			n += k
		}
	}
	return n
}

// String returns the counts by outcome: "success 3, turn_limit 9".
func (t Tally) String() string {
	var parts []string
	for _, outcome := range slices.Sorted(maps.Keys(t)) {
		parts = append(parts, fmt.Sprintf("%s %d", outcome, t[outcome]))
	}
	return strings.Join(parts, ", ")
}

// tallyOf counts the outcomes of all trials.
func tallyOf(tasks []Task) Tally {
	t := Tally{}
	for _, task := range tasks {
		for _, x := range task.Trials {
			t[x.Outcome]++
		}
	}
	return t
}

// startsOf returns the digest of the known first observations of tasks, "" if none
// is known.
func startsOf(tasks []Task) string {
	var b strings.Builder
	for _, t := range tasks {
		if t.Start != "" {
			fmt.Fprintf(&b, "%q %s\n", t.ID, t.Start)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return Digest([]byte(b.String()))
}

// maxNamed bounds the number of tasks named in a message.
const maxNamed = 5

// compareStarts compares the first observations of paired tasks. The result other lists
// the ids of tasks that differ; unknown is the number of pairs with an unknown start.
func compareStarts(a, b []Task) (other []string, unknown int) {
	for i := range a {
		switch {
		case a[i].Start == "" || b[i].Start == "":
			unknown++
		case a[i].Start != b[i].Start:
			other = append(other, a[i].ID)
		}
	}
	return other, unknown
}

// startsMismatch describes tasks that differ between two results although their
// ids are equal.
func startsMismatch(a, b Result, tasks int, other []string) Difference {
	names := strings.Join(other[:min(len(other), maxNamed)], ", ")
	if len(other) > maxNamed {
		names += ", …"
	}
	return Difference{
		Part: fmt.Sprintf("starts: %d of %d tasks have different first observations (%s), so the servers had different tasks", len(other), tasks, names),
		A:    a.Starts, B: b.Starts,
	}
}
