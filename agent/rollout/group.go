package rollout

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/openmanus/openmanus/data"
)

// Start is the start of an episode: its first observation and its server.
type Start struct {
	FirstObservation string
	Server           string // "" if unknown
}

// StartsOf returns the starts of the groups of episodes, by uid, for
// Options.Starts. It ignores episodes that failed in the infrastructure or have no
// recorded first observation.
func StartsOf(episodes []*data.Episode) map[string]Start {
	starts := map[string]Start{}
	for _, ep := range episodes {
		if _, known := starts[ep.UID]; !known && ep.Outcome.Trainable() && ep.FirstObservation != "" {
			starts[ep.UID] = Start{ep.FirstObservation, ep.Server}
		}
	}
	return starts
}

// group gives the same start to all episodes that are compared with each other.
// The first episode that is reset decides the start. Servers can have different
// tasks under one index (in textcraft they depend on PYTHONHASHSEED). An
// episode with another start on another server moves to the server of the
// group's start before the model generates anything, with the same seed, and
// later episodes of the group start there.
//
// If the group's own server gives another start, a deterministic
// environment has changed, for example because its server was restarted with
// another seed, and the episode fails. In other environments the start is partly
// random: the group is used and counted (group/different_starts).
type group struct {
	deterministic bool // env.Spec.Deterministic

	mu      sync.Mutex
	start   Start // start of the members
	members int   // episodes that play or have played from start
	pinned  bool  // the members stay on one server, because another server gave another start
	mixed   bool  // the group was pinned at least once

	// leader, if not nil, is the job that decides the start; the other jobs wait for it.
	leader     *job
	leaderDone chan struct{} // closed when the leader has started or failed
}

// server returns the server on which the group's next episode must start; "" means
// any server.
func (g *group) server() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.pinned {
		return ""
	}
	return g.start.Server
}

// setLeader makes j the leader if the group has no start and no leader.
func (g *group) setLeader(j *job) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.members == 0 && g.leader == nil {
		g.leader, g.leaderDone = j, make(chan struct{})
	}
}

// releaseLeader ends the other jobs' wait for j if j is the leader.
func (g *group) releaseLeader(j *job) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.leader == j {
		g.leader = nil
		close(g.leaderDone)
	}
}

// join adds an episode to the group after its reset, and reports whether it has
// the same start as the other members. It returns an error if the episode cannot
// join with this start.
func (g *group) join(ctx context.Context, j *job, s Start) (alike bool, err error) {
	defer g.releaseLeader(j)
	g.mu.Lock()
	if g.leader != nil && g.leader != j {
		leaderDone := g.leaderDone
		g.mu.Unlock()
		select {
		case <-leaderDone:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
		g.mu.Lock()
	}
	defer g.mu.Unlock()
	switch {
	case g.members == 0:
		g.start, g.pinned = s, false
		alike = true
	case s.FirstObservation == g.start.FirstObservation:
		alike = true
	case g.start.Server != "" && s.Server != g.start.Server:
		g.pinned, g.mixed = true, true
		return false, &startError{task: j.task.ID, sample: j.sample, here: s, group: g.start, move: true}
	case g.deterministic:
		return false, &startError{task: j.task.ID, sample: j.sample, here: s, group: g.start}
	}
	g.members++
	return alike, nil
}

// leave undoes join for an episode that failed because of a server or the engine.
func (g *group) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.members--; g.members == 0 {
		g.pinned = false
	}
}

// startError reports that an episode cannot be compared with the other episodes of its
// group.
type startError struct {
	task        string
	sample      int
	here, group Start
	move        bool // the episode must move to the group's server; if false, the server's task has changed
}

// Error names the servers and shows both starts.
func (e *startError) Error() string {
	starts := difference(e.group.FirstObservation, e.here.FirstObservation)
	if e.move {
		return fmt.Sprintf("task %s, sample %d: %s has another task than %s, the server of its group: %s",
			e.task, e.sample, e.here.Server, e.group.Server, starts)
	}
	return fmt.Sprintf("task %s: the task on %s has changed since its group began (was the server restarted with other data or another PYTHONHASHSEED?), "+
		"so the episodes cannot be compared: %s", e.task, e.here.Server, starts)
}

// difference quotes both texts from 20 bytes before their first difference on.
func difference(a, b string) string {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	const before, shown = 20, 120
	cut := func(s string) string {
		from := max(0, n-before)
		return strings.ToValidUTF8(s[from:min(len(s), from+shown)], "")
	}
	return fmt.Sprintf("%q instead of %q", cut(b), cut(a))
}
