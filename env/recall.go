package env

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Recaller is a Client that can ask its server what became of a step whose
// reply was lost. The question is asked again as often as it takes; the step is
// not.
type Recaller interface {
	// Recall gives what the last step, which failed, came to. ok is false where
	// that cannot be told: the server shows what it showed before, so the step
	// was not made, or changed nothing that can be seen, or is still under way; or
	// the task has ended, and the server shows nothing any more.
	Recall(ctx context.Context) (res StepResult, ok bool, err error)
}

// shown is the part of a Client that makes it a Recaller where the server has
// GET /detail, which shows the observation, reward and end of the last step.
// Only this client's steps change what is shown: a new observation is the lost
// step's.
//
// A call beside another one is refused with ErrBusy and changes nothing here.
type shown struct {
	mu    sync.Mutex
	now   string // the newest observation that came
	tried string // the action of the last step
	known bool   // whether now is one
}

// begun notes what came of a reset.
func (s *shown) begun(obs Obs, err error) (Obs, error) {
	if !errors.Is(err, ErrBusy) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.now, s.known = obs.Text, err == nil
	}
	return obs, err
}

// went notes what came of a step.
func (s *shown) went(res StepResult, err error) (StepResult, error) {
	if !errors.Is(err, ErrBusy) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tried = res.Action
		if err == nil {
			s.now = res.Observation
		}
	}
	return res, err
}

// recall asks in's server.
func (s *shown) recall(ctx context.Context, in *instance) (StepResult, bool, error) {
	if err := in.enter(); err != nil {
		return StepResult{}, false, err
	}
	defer in.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.known {
		return StepResult{}, false, nil
	}
	path := fmt.Sprintf("/detail?id=%d", in.id)
	raw, err := in.get(ctx, OpRecall, path)
	if errors.Is(err, KindEnvironment) { // the task has ended: nobody tells with what
		return StepResult{}, false, nil
	}
	if err != nil {
		return StepResult{}, false, err
	}
	res := StepResult{Action: s.tried, Sent: true}
	r := in.object(OpRecall, path, raw)
	r.read(usualKeys.observation, &res.Observation)
	r.read(usualKeys.reward, &res.Reward)
	r.read(usualKeys.done, &res.Done)
	if r.err != nil || res.Observation == s.now {
		return StepResult{}, false, r.err
	}
	s.now = res.Observation
	return res, true, nil
}
