package algo

import (
	"context"
	"time"

	"github.com/openmanus/openmanus/algo/ranks"
)

// checkEvery is the time between two checks of several ranks. An exchange takes about a millisecond, a step of a small model can take
// less than fifty.
const checkEvery = 250 * time.Millisecond

// checks decide between supervised steps whether the training stops and whether a checkpoint is due. One process checks before every step.
// Several ranks check together: any of them may ask to stop, and rank 0 decides about the checkpoint. With each check, rank 0 announces
// the step of the next one, which follows about checkEvery later by its clock.
type checks struct {
	ranks     *ranks.Ranks
	saveAfter time.Duration // time between checkpoints; 0: none
	now       func() time.Time

	next  int       // step before which the next check is
	last  int       // step of the last check; 0: none
	at    time.Time // time of the last check
	saved time.Time // time of the last checkpoint, at first that of the first check
}

// checked is the result of a check, of which all ranks take that of rank 0.
type checked struct {
	Save bool
	Next int
}

// before is called before every step. It reports whether a checkpoint is due. If soft has ended on a rank, it returns ErrInterrupted
// on all ranks, at a check.
func (c *checks) before(ctx, soft context.Context, step int) (save bool, err error) {
	if step < c.next {
		return false, nil
	}
	now := c.now()
	if c.last == 0 {
		c.saved = now
	}
	all, err := ranks.Gather(ctx, c.ranks, func() (checked, error) {
		if soft.Err() != nil {
			return checked{}, ErrInterrupted
		}
		due := c.saveAfter > 0 && c.last > 0 && now.Sub(c.saved) >= c.saveAfter
		return checked{Save: due, Next: step + c.distance(step, now)}, nil
	})
	if err != nil {
		return false, interrupted(err)
	}
	c.next, c.last, c.at = all[0].Next, step, now
	if all[0].Save {
		c.saved = now
	}
	return all[0].Save, nil
}

// distance returns the number of steps to the next check.
func (c *checks) distance(step int, now time.Time) int {
	if c.ranks == nil || c.last == 0 {
		return 1
	}
	took := max(1, now.Sub(c.at)/time.Duration(step-c.last))
	return max(1, int(checkEvery/took))
}
