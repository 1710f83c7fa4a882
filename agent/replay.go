package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/openmanus/openmanus/env"
)

// onInstance sends a request, with the given function, to the episode's instance. If
// the instance is lost, it repeats the actions so far on another instance and sends
// the request there. The model's replies are reused, not sampled again. A step is
// never sent twice to the same instance.
func (p *player) onInstance(ctx context.Context, call func() error) error {
	refused := 0
	at := p.point()
	err := call()
	for ctx.Err() == nil && p.Replace != nil && isLost(err) {
		if p.started && !p.Spec.Deterministic {
			return err
		}
		if !env.ServerFault(err) {
			// The server rejected the request. The reason can be that its
			// instance was lost silently, so try one other instance.
			if refused++; refused > 1 {
				return err
			}
		}
		if !p.lost.add(at) {
			return p.lost.limitError(at, err)
		}
		client, stop := p.Replace(ctx, err)
		switch {
		case stop != nil:
			return stop
		case client == nil:
			return err
		}
		p.Client = client
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

// sendStep sends an action to the episode's instance. If the reply is lost, it
// requests the result of the step again from servers that support this, except after
// a timeout, because the server may still be busy with the step.
func (p *player) sendStep(ctx context.Context, action string) (env.StepResult, error) {
	res, err := p.Client.Step(ctx, action)
	if err == nil || !res.Sent || !env.ServerFault(err) || errors.Is(err, env.KindTimeout) {
		return res, err
	}
	r, can := p.Client.(env.Recaller)
	if !can {
		return res, err
	}
	if recalled, ok, err := r.Recall(ctx); err == nil && ok {
		return recalled, nil
	}
	return res, err
}

// point returns the position of the episode: 0 before its task is reset, n
// before the environment has answered turn n.
func (p *player) point() int {
	if !p.started {
		return 0
	}
	return p.answered + 1
}

// isLost reports whether err is a failed request to the instance's server.
func isLost(err error) bool {
	e, ok := errors.AsType[*env.Error](err)
	return ok && e.Kind != env.KindCancelled
}

// replay repeats the actions so far on a new instance and compares the replies.
// The result is the point that the new instance reached.
func (p *player) replay(ctx context.Context) (at int, err error) {
	if !p.started {
		return 0, nil
	}
	obs, err := env.ResetTask(ctx, p.Client, p.ep.Task)
	if err != nil {
		return 0, err
	}
	p.lost.passed(0)
	if first := p.ep.FirstObservation; obs.Text != first {
		return 0, replayError(0, first, obs.Text)
	}
	for i := range p.answered {
		t := &p.ep.Turns[i]
		res, err := p.sendStep(ctx, p.Format.Parse(t.Text).Text)
		if err != nil {
			return i + 1, err
		}
		p.lost.passed(i + 1)
		if res.Observation != t.Observation || res.Reward != t.Reward || res.Done != t.Done {
			return i + 1, replayError(i+1, fmt.Sprintf("%s [reward %g, done %t]", t.Observation, t.Reward, t.Done),
				fmt.Sprintf("%s [reward %g, done %t]", res.Observation, res.Reward, res.Done))
		}
	}
	return p.answered + 1, nil
}

// replayError reports that another instance answered the same actions differently, so
// the episode cannot continue there. Turn 0 is the first observation.
func replayError(turn int, want, got string) error {
	return fmt.Errorf("the instance was lost, and another instance answers turn %d of the same actions with %.200q instead of %.200q", turn, got, want)
}

// lostInstances decides whether an episode continues on another instance after a
// loss. A server that loses requests at random loses many instances in a long
// episode: if a fifth of all steps is lost, an episode of twenty turns uses sixty
// instances, and each instance makes progress. An episode fails only if it makes
// no progress: a step breaks every server, or the servers no longer answer.
type lostInstances struct {
	limit int   // instances in a row that may be lost and replaced at one point
	inRow []int // for each point, number of instances lost there since an instance last passed it
	total int   // instances replaced in the episode
}

// maxTotalFactor times limit bounds the instances that one episode may lose.
const maxTotalFactor = 100

// add counts an instance that was lost at the given point, and reports whether the
// episode may use another one.
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

// passed records that an instance passed the given point.
func (l *lostInstances) passed(point int) {
	if point < len(l.inRow) {
		l.inRow[point] = 0
	}
}

// limitError wraps err with the limit that was reached when an instance was lost at
// the given point.
func (l *lostInstances) limitError(point int, err error) error {
	where := "the reset"
	if point > 0 {
		where = fmt.Sprintf("turn %d", point)
	}
	switch {
	case l.limit == 0:
		return err
	case l.inRow[point] >= l.limit:
		return fmt.Errorf("%d instances in a row were lost in %s (the limit is agent.episode_replays): %w", l.limit+1, where, err)
	}
	return fmt.Errorf("%d instances were lost, the last in %s (the limit is %d times agent.episode_replays): %w", l.total+1, where, maxTotalFactor, err)
}
