package agent

import "fmt"

// losses decide whether an episode whose instance was lost goes on with another
// one. A server that loses requests at random loses an instance in most
// episodes of many turns, and most of those that repeat one: where a fifth of
// all steps is lost, an episode of twenty turns takes sixty instances. That is
// no reason to give it up, since every one gets somewhere. What is one, is a
// point that no instance gets past: a step that breaks every server it is sent
// to, or a server that answers nothing any more.
type losses struct {
	limit int   // instances in a row that may be lost at one point and replaced
	row   []int // lost at each point since an instance last got past it
	all   int   // replaced in the episode
}

// allLosses bounds what an episode may cost: so many times limit instances.
const allLosses = 100

// add counts an instance that was lost at point, and reports whether the
// episode may have another.
func (l *losses) add(point int) bool {
	for len(l.row) <= point {
		l.row = append(l.row, 0)
	}
	if l.row[point] >= l.limit || l.all >= allLosses*l.limit {
		return false
	}
	l.row[point]++
	l.all++
	return true
}

// passed counts an instance that got past point.
func (l *losses) passed(point int) {
	if point < len(l.row) {
		l.row[point] = 0
	}
}

// give is err with the reason why no other instance follows the one that was
// lost at point.
func (l *losses) give(point int, err error) error {
	where := "the reset"
	if point > 0 {
		where = fmt.Sprintf("turn %d", point)
	}
	switch {
	case l.limit == 0:
		return err
	case l.row[point] >= l.limit:
		return fmt.Errorf("%d instances in a row were lost in %s (agent.episode_replays bounds them): %w", l.limit+1, where, err)
	}
	return fmt.Errorf("%d instances were lost, the last in %s (%d times agent.episode_replays bounds them): %w", l.all+1, where, allLosses, err)
}
