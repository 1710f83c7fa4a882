package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/data"
)

// step is a training step that collects episodes. Store.mu guards it.
type step struct {
	o        rollout.Options
	groups   int      // number of groups that the step needs
	open     []*group // in the order in which their first sessions came
	finished int
	touched  time.Time     // last beginning or end of an episode
	done     chan struct{} // closed when the step has its episodes
	complete bool
	stats    rollout.Stats
}

// group holds the episodes of one task, which are compared with each other.
type group struct {
	uid      string
	task     string
	repeat   int        // number of earlier groups of the task in the step
	seats    []*episode // nil: free
	attempts []int      // sessions that have had each seat
}

// seat returns a free place for a session that plays a task: in a group of the task, or in
// a new group if the step needs another one. The group is nil if there is no place.
func (st *step) seat(task string) (*group, int) {
	if st.complete {
		return nil, 0
	}
	for _, g := range st.open {
		if g.task != task {
			continue
		}
		for i, e := range g.seats {
			if e == nil {
				return g, i
			}
		}
	}
	if len(st.open) == st.groups {
		return nil, 0
	}
	repeat := 0
	for _, earlier := range st.o.Earlier {
		if earlier.ID == task {
			repeat++
		}
	}
	for _, g := range st.open {
		if g.task == task {
			repeat++
		}
	}
	g := &group{
		uid: fmt.Sprintf("%d/%s/%s", st.o.Step, Env, task), task: task, repeat: repeat,
		seats: make([]*episode, st.o.GroupSize), attempts: make([]int, st.o.GroupSize),
	}
	if repeat > 0 {
		g.uid += fmt.Sprintf("#%d", repeat+1)
	}
	st.open = append(st.open, g)
	return g, 0
}

// stalled reports whether no episode is running and none has begun or ended for a time.
func (st *step) stalled(now time.Time, idle time.Duration) bool {
	for _, g := range st.open {
		for _, e := range g.seats {
			if e != nil && e.status == running {
				return false
			}
		}
	}
	return st.finished > 0 && now.Sub(st.touched) >= idle
}

// end completes the step.
func (st *step) end() {
	if !st.complete {
		st.complete = true
		close(st.done)
	}
}

// reminder is the time between messages of a step that waits for agents.
const reminder = time.Minute

// Collect admits sessions until the given number of groups is complete, and returns their
// episodes by group and sample. Tasks that were played earlier in the step form new groups.
func (s *Store) Collect(ctx context.Context, groups int, o rollout.Options) ([]*data.Episode, rollout.Stats, error) {
	began := time.Now()
	st := &step{o: o, groups: groups, touched: began, done: make(chan struct{})}
	st.stats.Total = groups * o.GroupSize
	s.mu.Lock()
	if s.step != nil {
		s.mu.Unlock()
		return nil, st.stats, errors.New("a step is collecting episodes already")
	}
	s.step = st
	s.notify()
	s.mu.Unlock()

	remind := time.NewTicker(reminder)
	defer remind.Stop()
	var err error
wait:
	for {
		select {
		case <-st.done:
			break wait
		case <-ctx.Done():
			err = context.Cause(ctx)
			break wait
		case <-s.o.Stop.Done():
			err = context.Cause(s.o.Stop)
			break wait
		case <-s.ended:
			err = errClosed
			break wait
		case <-remind.C:
			s.mu.Lock()
			s.o.Log.Info("waiting for agents", "step", o.Step, "episodes", st.finished, "wanted", st.stats.Total, "waiting_sessions", s.waiting)
			s.mu.Unlock()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step = nil
	st.complete = true
	var episodes []*data.Episode
	for _, g := range st.open {
		for _, e := range g.seats {
			switch {
			case e == nil:
			case e.status == running: // the step was broken off
				s.drop(e, "the step was broken off")
			default:
				e.status = collected
				episodes = append(episodes, e.result)
				e.forget()
			}
		}
	}
	st.stats.Failed, s.dropped = s.dropped, 0
	st.stats.Elapsed = time.Since(began)
	return episodes, st.stats, err
}
