package rollout

import (
	"context"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/data"
)

// Running identifies an attempt at an episode.
type Running struct {
	Env     string // table of the environment (data.Task.Table)
	Task    string // id of the task
	UID     string
	Sample  int
	Attempt int
}

// Observer follows episodes while they are played. The goroutines of the episodes call its
// methods concurrently and wait for them, so the methods must return at once and must not
// block. An Observer must not keep the pointers that it receives.
type Observer interface {
	// Began reports that the task was reset. The parameter first is the first observation.
	Began(r Running, first string)
	// Turn reports a turn that the environment has answered.
	Turn(r Running, t *data.Turn)
	// Ended reports the end of the attempt. Began was not called if the reset failed.
	Ended(r Running, e *data.Episode)
}

func runningOf(s *agent.Start) Running {
	return Running{Env: s.Task.Table(), Task: s.Task.ID, UID: s.UID, Sample: s.Sample, Attempt: s.Attempt}
}

// observe makes an attempt report its reset and its turns to o.
func observe(o Observer, s *agent.Start) {
	r, joined := runningOf(s), s.OnReset
	s.OnReset = func(ctx context.Context, first string) error {
		err := joined(ctx, first)
		if err == nil {
			o.Began(r, first)
		}
		return err
	}
	s.OnTurn = func(t *data.Turn) { o.Turn(r, t) }
}
