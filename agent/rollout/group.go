package rollout

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/openmanus/openmanus/data"
)

// Start is how an episode begins: what its reset showed, and on which server.
type Start struct {
	FirstObservation string
	Server           string // "" where that is not known
}

// StartsOf gives the starts of the groups that episodes belong to, by uid, for
// Options.Starts. Episodes that failed for a reason outside of them are passed
// over, and those of dumps that kept no first observation.
func StartsOf(episodes []*data.Episode) map[string]Start {
	starts := map[string]Start{}
	for _, ep := range episodes {
		if _, known := starts[ep.UID]; !known && ep.Outcome.Trainable() && ep.FirstObservation != "" {
			starts[ep.UID] = Start{ep.FirstObservation, ep.Server}
		}
	}
	return starts
}

// group makes the episodes that are compared with each other begin alike. The
// first episode that has been reset decides the start. Servers may show
// different tasks under one index (textcraft does under another
// PYTHONHASHSEED): an episode that was shown another start on another server
// moves to the server of the group's start before the model is asked anything,
// with the same seed, and later episodes of the group begin there.
//
// Where the very server of the group shows another start, nothing can make the
// two equal. A deterministic environment has then changed, for one because its
// server was started again with another seed, and the episode fails. In any
// other environment chance is part of the start: the group is compared as it
// is, and counted (group/different_starts).
type group struct {
	uid           string
	deterministic bool // env.Spec.Deterministic

	mu      sync.Mutex
	start   Start // of the members
	members int   // episodes that play, or have played, from start
	pinned  bool  // another server showed another start
	mixed   bool  // it was pinned at some time

	// leader, if it is not nil, is the episode whose start the others wait for.
	leader *job
	led    chan struct{} // closed when the leader's start is known, or will not be
}

// server is the server on which the group's next episode has to begin, "" for
// any.
func (g *group) server() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.pinned {
		return ""
	}
	return g.start.Server
}

// setLeader makes j decide the start of a group that has none yet.
func (g *group) setLeader(j *job) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.members == 0 && g.leader == nil {
		g.leader, g.led = j, make(chan struct{})
	}
}

// releaseLeader ends the wait for j if that is the leader.
func (g *group) releaseLeader(j *job) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.leader == j {
		g.leader = nil
		close(g.led)
	}
}

// join makes an episode that has been reset a member, and reports whether it
// begins like the others. Its error says that the episode cannot be a member
// with this start.
func (g *group) join(ctx context.Context, j *job, s Start) (alike bool, err error) {
	defer g.releaseLeader(j)
	g.mu.Lock()
	if g.leader != nil && g.leader != j {
		led := g.led
		g.mu.Unlock()
		select {
		case <-led:
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
		return false, &otherStartError{Task: j.task.ID, Sample: j.sample, Here: s, Group: g.start}
	case g.deterministic:
		return false, &ChangedStartError{Task: j.task.ID, Here: s, Group: g.start}
	}
	g.members++
	return alike, nil
}

// leave takes back a join whose episode failed for a reason outside of it.
func (g *group) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.members--; g.members == 0 {
		g.pinned = false
	}
}

// otherStartError says that an episode has to move to its group's server.
type otherStartError struct {
	Task        string
	Sample      int
	Here, Group Start
}

// Error names both servers.
func (e *otherStartError) Error() string {
	return fmt.Sprintf("task %s, sample %d: %s shows another task than %s, where its group plays: %s",
		e.Task, e.Sample, e.Here.Server, e.Group.Server, difference(e.Group.FirstObservation, e.Here.FirstObservation))
}

// ChangedStartError says that an episode cannot be compared with the others of
// its group: their task is not shown any more.
type ChangedStartError struct {
	Task        string
	Here, Group Start
}

// Error shows both starts.
func (e *ChangedStartError) Error() string {
	return fmt.Sprintf("task %s: %s shows another task now than when its group began (was it started again with other data or another PYTHONHASHSEED?), "+
		"so the two cannot be compared: %s", e.Task, e.Here.Server, difference(e.Group.FirstObservation, e.Here.FirstObservation))
}

// difference shows two texts from a little before the first byte that differs.
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

// groupsOf makes the groups of jobs. starts are those of groups that earlier
// rollouts have played a part of.
func groupsOf(jobs []*job, envs map[string]Env, starts map[string]Start) []*group {
	byUID := map[string]*group{}
	var groups []*group
	for _, j := range jobs {
		g := byUID[j.uid]
		if g == nil {
			g = &group{uid: j.uid, deterministic: envs[j.task.Table()].Setup.Spec.Deterministic}
			if s, ok := starts[j.uid]; ok {
				g.start, g.members = s, 1
			}
			byUID[j.uid] = g
			groups = append(groups, g)
		}
		j.group = g
	}
	return groups
}
