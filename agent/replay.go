package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/openmanus/openmanus/env"
)

// onInstance makes a call of the episode's client. Where the instance is lost
// in it, the call is made on another one, on which everything so far was played
// again: what the model said stays said, and nothing is sampled anew. A step is
// never sent twice to the same instance.
func (p *player) onInstance(ctx context.Context, call func() error) error {
	refused := 0
	at := p.point()
	err := call()
	for ctx.Err() == nil && p.replace != nil && isLost(err) {
		if p.started && !p.Spec.Deterministic {
			return err
		}
		if !env.ServerFault(err) {
			// The server answered, and does not want this: another instance
			// may, if its own was lost without a word, but not two others.
			if refused++; refused > 1 {
				return err
			}
		}
		if !p.lost.add(at) {
			return p.lost.limitError(at, err)
		}
		client, stop := p.replace(ctx, err)
		switch {
		case stop != nil:
			return stop
		case client == nil:
			return err
		}
		p.client = client
		p.ep.Replays++
		if at, err = p.replay(ctx); err == nil {
			err = call()
		}
	}
	if err == nil {
		p.lost.passed(p.point())
	}
	return err
}

// sendStep gives the episode's instance an action. Where the reply is lost the
// server may know what the step came to, and nothing else is then lost. One
// that took too long is not asked: it may be at it still, and take as long again.
func (p *player) sendStep(ctx context.Context, action string) (env.StepResult, error) {
	res, err := p.client.Step(ctx, action)
	if err == nil || !res.Sent || !env.ServerFault(err) || errors.Is(err, env.KindTimeout) {
		return res, err
	}
	r, can := p.client.(env.Recaller)
	if !can {
		return res, err
	}
	if came, ok, asked := r.Recall(ctx); asked == nil && ok {
		return came, nil
	}
	return res, err
}

// point is where the episode is: 0 before its task is reset, n before the
// environment has answered turn n.
func (p *player) point() int {
	if !p.started {
		return 0
	}
	return p.answered + 1
}

// isLost reports whether err is a failed exchange with the instance's server.
func isLost(err error) bool {
	var e *env.Error
	return errors.As(err, &e) && e.Kind != env.KindCancelled
}

// replay plays on a fresh instance what was played so far, and compares. at is
// the point that it came to.
func (p *player) replay(ctx context.Context) (at int, err error) {
	if !p.started {
		return 0, nil
	}
	obs, err := p.client.Reset(ctx, p.ep.Task.Index)
	if err != nil {
		return 0, err
	}
	p.lost.passed(0)
	if first := p.ep.FirstObservation; obs.Text != first {
		return 0, &ReplayError{Want: first, Got: obs.Text}
	}
	for i := range p.answered {
		t := &p.ep.Turns[i]
		res, err := p.sendStep(ctx, p.Format.Parse(t.Text).Text)
		if err != nil {
			return i + 1, err
		}
		p.lost.passed(i + 1)
		if res.Observation != t.Observation || res.Reward != t.Reward || res.Done != t.Done {
			return i + 1, &ReplayError{
				Turn: i + 1, Want: fmt.Sprintf("%s [reward %g, done %t]", t.Observation, t.Reward, t.Done),
				Got: fmt.Sprintf("%s [reward %g, done %t]", res.Observation, res.Reward, res.Done),
			}
		}
	}
	return p.answered + 1, nil
}

// ReplayError says that another instance answered the same actions otherwise,
// so that the episode cannot go on there.
type ReplayError struct {
	Turn      int // 0: the first observation
	Want, Got string
}

// Error shows both answers.
func (e *ReplayError) Error() string {
	return fmt.Sprintf("the instance was lost, and another answers turn %d of the same actions with %.200q instead of %.200q", e.Turn, e.Got, e.Want)
}

// lostInstances decide whether an episode whose instance was lost goes on with another
// one. A server that loses requests at random loses an instance in most
// episodes of many turns, and most of those that repeat one: where a fifth of
// all steps is lost, an episode of twenty turns takes sixty instances. That is
// no reason to give it up, since every one gets somewhere. What is one, is a
// point that no instance gets past: a step that breaks every server it is sent
// to, or a server that answers nothing any more.
type lostInstances struct {
	limit int   // instances in a row that may be lost at one point and replaced
	inRow []int // lost at each point since an instance last got past it
	total int   // replaced in the episode
}

// maxTotalFactor bounds what an episode may cost: so many times limit instances.
const maxTotalFactor = 100

// add counts an instance that was lost at point, and reports whether the
// episode may have another.
func (l *lostInstances) add(point int) bool {
	for len(l.inRow) <= point {
		l.inRow = append(l.inRow, 0)
	}
	if l.inRow[point] >= l.limit || l.total >= maxTotalFactor*l.limit {
		return false
	}
	l.inRow[point]++
	l.total++
	return true
}

// passed counts an instance that got past point.
func (l *lostInstances) passed(point int) {
	if point < len(l.inRow) {
		l.inRow[point] = 0
	}
}

// limitError is err with the reason why no other instance follows the one that was
// lost at point.
func (l *lostInstances) limitError(point int, err error) error {
	where := "the reset"
	if point > 0 {
		where = fmt.Sprintf("turn %d", point)
	}
	switch {
	case l.limit == 0:
		return err
	case l.inRow[point] >= l.limit:
		return fmt.Errorf("%d instances in a row were lost in %s (agent.episode_replays bounds them): %w", l.limit+1, where, err)
	}
	return fmt.Errorf("%d instances were lost, the last in %s (%d times agent.episode_replays bounds them): %w", l.total+1, where, maxTotalFactor, err)
}
