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
	for ctx.Err() == nil && p.another != nil && lost(err) {
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
		if !p.losses.add(at) {
			return p.losses.give(at, err)
		}
		client, stop := p.another(ctx, err)
		switch {
		case stop != nil:
			return stop
		case client == nil:
			return err
		}
		p.client = client
		p.ep.Replays++
		if at, err = p.repeat(ctx); err == nil {
			err = call()
		}
	}
	if err == nil {
		p.losses.passed(p.point())
	}
	return err
}

// send gives the episode's instance an action. Where the reply is lost the
// server may know what the step came to, and nothing else is then lost. One
// that took too long is not asked: it may be at it still, and take as long again.
func (p *player) send(ctx context.Context, action string) (env.StepResult, error) {
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

// lost reports whether err is a failed exchange with the instance's server.
func lost(err error) bool {
	var e *env.Error
	return errors.As(err, &e) && e.Kind != env.KindCancelled
}

// repeat plays on a fresh instance what was played so far, and compares. at is
// the point that it came to.
func (p *player) repeat(ctx context.Context) (at int, err error) {
	if !p.started {
		return 0, nil
	}
	obs, err := p.client.Reset(ctx, p.ep.Task.Index)
	if err != nil {
		return 0, err
	}
	p.losses.passed(0)
	if first := p.ep.FirstObservation; obs.Text != first {
		return 0, &ReplayError{Want: first, Got: obs.Text}
	}
	for i := range p.answered {
		t := &p.ep.Turns[i]
		res, err := p.send(ctx, p.Format.Parse(t.Text).Text)
		if err != nil {
			return i + 1, err
		}
		p.losses.passed(i + 1)
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
