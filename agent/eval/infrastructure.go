package eval

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/env"
)

// Infrastructure is what the servers did to an evaluation, and what was done
// about it. None of it counts for or against the agent.
type Infrastructure struct {
	Retries int        `json:"retries"` // attempts at episodes beyond the first
	Replays int        `json:"replays"` // instances that took the place of lost ones inside attempts
	Servers env.Counts `json:"servers"`
	// MixedStarts counts tasks that differed between servers and were each played
	// on one of them; BadTasks are those that no server could reset.
	MixedStarts int      `json:"mixed_starts,omitempty"`
	BadTasks    []string `json:"bad_tasks,omitempty"`
}

// Line says on one line, with its end, what went wrong; "" if nothing did.
func (i Infrastructure) Line() string {
	var parts []string
	add := func(n int64, one, many string) {
		if n != 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, map[bool]string{true: one, false: many}[n == 1]))
		}
	}
	faults := i.Servers.Faults
	var kinds []string
	for _, kind := range slices.SortedFunc(maps.Keys(faults), func(a, b string) int {
		return cmp.Or(cmp.Compare(faults[b], faults[a]), strings.Compare(a, b))
	}) {
		kinds = append(kinds, fmt.Sprintf("%s %d", kind, faults[kind]))
	}
	of := " (" + strings.Join(kinds, ", ") + ")"
	add(i.Servers.AllFaults(), "fault of the servers"+of, "faults of the servers"+of)
	add(i.Servers.Quarantines, "server taken out of service", "times a server was taken out of service")
	add(int64(i.Replays), "lost instance replaced", "lost instances replaced")
	add(int64(i.Retries), "episode begun anew", "times an episode was begun anew")
	add(int64(i.MixedStarts), "task that differs between servers", "tasks that differ between servers")
	bad := " (" + strings.Join(i.BadTasks, ", ") + ")"
	add(int64(len(i.BadTasks)), "task left out since no server can reset it"+bad, "tasks left out since no server can reset them"+bad)
	if len(parts) == 0 {
		return ""
	}
	return "on the way: " + strings.Join(parts, ", ") + "\n"
}
