package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env/check"
)

// mostFaults is the largest number of faults in a report.
const mostFaults = 5

// gymDump counts the contents of a dump played on a server of AgentGym.
type gymDump struct {
	Outcomes map[data.Outcome]int `json:"outcomes"`
	Turns    int                  `json:"turns"`
	Calls    map[string]int       `json:"calls"` // checked exchanges, by kind of call
	Rewards  float64              `json:"rewards"`
}

// judgeDump counts the contents of an environment's episodes and lists violations
// of the protocol: calls and replies of a wrong shape, turns that differ from the
// server's reply, and episodes that are missing or failed for other reasons than
// the agent's actions.
func judgeDump(name string, episodes []*data.Episode, want int) (d gymDump, faults []string) {
	d = gymDump{Outcomes: map[data.Outcome]int{}, Calls: map[string]int{}}
	var f faultList
	if missing, twice := countFaults(episodes, want); missing != 0 || twice != 0 {
		f.add("%d of %d episodes are missing in the dump, %d are in it twice", missing, want, twice)
	}
	for _, e := range episodes {
		d.Outcomes[e.Outcome]++
		d.Turns += len(e.Turns)
		d.Rewards += e.Reward
		if !e.Outcome.Trainable() {
			f.add("%s: %s: %s", e.Task.ID, e.Outcome, e.Err)
			continue
		}
		if e.Attempts > 1 || e.Replays > 0 {
			f.add("%s: it took %d attempts and %d replays", e.Task.ID, e.Attempts, e.Replays)
		}
		var steps []data.Exchange
		for _, x := range slices.Concat(e.Created, e.Exchanges) {
			call, fault := check.Exchange(name, x)
			d.Calls[call]++
			if fault != "" {
				f.add("%s: %s", e.Task.ID, fault)
			}
			if call == "step" && x.Status == 200 {
				steps = append(steps, x)
			}
		}
		if fault := turnsOf(name, e, steps); fault != "" {
			f.add("%s: %s", e.Task.ID, fault)
		}
	}
	return d, f.all()
}

// turnsOf compares the turns of an episode with the server's replies to its steps,
// and returns the first difference or "". A turn that the client refused has no step.
func turnsOf(name string, e *data.Episode, steps []data.Exchange) string {
	n := 0
	for i, t := range e.Turns {
		if t.Refused || t.Stop == string(engine.StopContext) { // the client does not send turns that were cut off
			continue
		}
		if n == len(steps) {
			return fmt.Sprintf("turn %d has an observation, and no step was sent", i+1)
		}
		text, done, err := check.Played(name, steps[n].Reply)
		switch {
		case err != nil:
			return fmt.Sprintf("turn %d: %v", i+1, err)
		case t.Observation != text:
			return fmt.Sprintf("turn %d has %.80q, the server replied %.80q", i+1, t.Observation, text)
		case t.Done != done:
			return fmt.Sprintf("turn %d is done: %t, the server replied %t", i+1, t.Done, done)
		}
		n++
	}
	if n < len(steps) {
		return fmt.Sprintf("%d steps were sent, and %d turns made", len(steps), n)
	}
	return ""
}

// faultList keeps the first faults and counts the others.
type faultList struct {
	kept []string
	more int
}

func (f *faultList) add(format string, args ...any) {
	if len(f.kept) == mostFaults {
		f.more++
		return
	}
	f.kept = append(f.kept, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (f *faultList) all() []string {
	if f.more > 0 {
		return append(f.kept, fmt.Sprintf("and %d more", f.more))
	}
	return f.kept
}
