package env

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// shown makes a Client a Recaller if the server has GET /detail, which returns
// the observation, reward and end of the last step. Only this client's steps
// change that reply, so a new observation belongs to the lost step.
//
// A concurrent call fails with ErrBusy and changes nothing here.
type shown struct {
	mu    sync.Mutex
	now   string // the newest observation received
	tried string // the action of the last step
	known bool   // now is set
}

// begun stores the result of a reset.
func (s *shown) begun(obs Obs, err error) (Obs, error) {
	if !errors.Is(err, ErrBusy) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.now, s.known = obs.Text, err == nil
	}
	return obs, err
}

// went stores the result of a step.
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

// recall requests the result of the last step from the server of in.
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
	if errors.Is(err, KindEnvironment) { // the task has ended, with an unknown result
		return StepResult{}, false, nil
	}
	if err != nil {
		return StepResult{}, false, err
	}
	res := StepResult{Action: s.tried, Sent: true}
	r := in.object(OpRecall, path, raw)
	r.readStep(usualKeys, &res)
	if r.err != nil || res.Observation == s.now {
		return StepResult{}, false, r.err
	}
	s.now = res.Observation
	return res, true, nil
}
