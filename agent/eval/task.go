package eval

import (
	"fmt"
	"slices"

	"github.com/openmanus/openmanus/data"
)

// Trial is one episode, as an evaluation counts it.
type Trial struct {
	Outcome data.Outcome `json:"outcome"`
	Score   float64      `json:"score"`
	Turns   int          `json:"turns"`
}

// lost reports whether the infrastructure, and not the agent, ended it.
func (t Trial) lost() bool { return !t.Outcome.Trainable() }

// Task is one task with all its trials.
type Task struct {
	ID     string `json:"id"` // "ID#2" where a list has the task for the second time
	Family string `json:"family,omitempty"`
	// Start is the digest of the first observation; "" where it is not known, or
	// the trials began differently.
	Start  string  `json:"start,omitempty"`
	Trials []Trial `json:"trials"`
}

// Tasks groups episodes by task, in their order. family names the group of
// tasks that an index belongs to; nil where that is not known.
func Tasks(episodes []*data.Episode, family func(index int) string) []Task {
	var out []Task
	at := map[string]int{} // by uid
	starts := map[int][]string{}
	times := map[string]int{} // by task
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
