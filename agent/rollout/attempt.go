package rollout

import (
	"context"
	"errors"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/engine"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
)

// attempt is one try at a job. Its lease and its session are taken before it
// is played where batches are formed in a fixed order.
type attempt struct {
	job     *job
	env     Env
	lease   *env.Lease // nil: none could be had, or none in place of a lost one
	session *engine.Session
	record  env.Recorder
	// failed is the result of an attempt that could not begin.
	failed *data.Episode
	// end is why no episode of the rollout is worth beginning any more.
	end error
}

// begin counts a try at j and leases an instance for it.
func (r *run) begin(ctx context.Context, j *job) *attempt {
	a := &attempt{job: j, env: r.envs[j.task.Table()]}
	a.begun(ctx, a.acquire(ctx, a.env.Pool.Acquire))
	return a
}

// beginNow is begin for one who holds leases that nobody gives back before: nil
// where there is no place for another.
func (r *run) beginNow(ctx context.Context, j *job) *attempt {
	a := &attempt{job: j, env: r.envs[j.task.Table()]}
	err := a.acquire(ctx, a.env.Pool.AcquireNow)
	if errors.Is(err, env.ErrFull) {
		return nil
	}
	a.begun(ctx, err)
	return a
}

func (a *attempt) begun(ctx context.Context, err error) {
	a.job.attempts++
	if err != nil {
		a.fail(ctx, data.EnvError, err)
	}
}

func (a *attempt) acquire(ctx context.Context, from func(context.Context) (*env.Lease, error)) (err error) {
	a.lease, err = from(ctx)
	var down *env.DownError
	if errors.As(err, &down) {
		a.end = down // the pool has waited: the next job would wait as long again
	}
	return err
}

// another takes a fresh instance for a lost one.
func (a *attempt) another(o Options) func(context.Context, error) (env.Client, error) {
	return func(ctx context.Context, lost error) (env.Client, error) {
		o.Log.Debug("instance lost, going on with another", "task", a.job.task.ID, "sample", a.job.sample, "server", a.lease.Server(), "error", lost)
		a.lease.Fail(lost)
		if err := a.acquire(ctx, a.env.Pool.Acquire); err != nil {
			return nil, err
		}
		a.lease.Record(a.record)
		return a.lease.Client(), nil
	}
}

// open takes a session beforehand.
func (a *attempt) open(ctx context.Context) {
	if a.failed != nil {
		return
	}
	setup := a.env.Setup
	session, err := setup.Engine.Open(ctx, setup.SessionOptions(a.start()))
	if err != nil {
		a.lease.Release(true)
		a.fail(ctx, data.EngineError, err)
		return
	}
	a.session = session
}

func (a *attempt) fail(ctx context.Context, outcome data.Outcome, err error) {
	if ctx.Err() != nil {
		outcome = data.Cancelled
	}
	a.failed = a.job.failure(outcome, err)
}

func (a *attempt) start() agent.Start {
	s := agent.Start{
		Task: a.job.task, UID: a.job.uid, Sample: a.job.sample, Seed: a.job.seed, Attempt: a.job.attempts,
		Session: a.session,
	}
	if a.lease != nil {
		s.Client = a.lease.Client()
	}
	return s
}

// play plays the attempt and gives lease and session back. The error is one
// that ends the whole rollout.
func (a *attempt) play(ctx context.Context, o Options) (*data.Episode, error) {
	if a.failed != nil {
		return a.failed, a.end
	}
	if o.EpisodeTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.EpisodeTimeout, agent.ErrTimeLimit)
		defer cancel()
	}
	var exchanges, created []data.Exchange
	if o.Exchanges {
		created = a.lease.Created()
		a.record = func(x data.Exchange) { exchanges = append(exchanges, x) }
		a.lease.Record(a.record)
	}
	start := a.start()
	start.Another, start.Replays = a.another(o), o.Replays
	ep, err := agent.RunEpisode(ctx, a.env.Setup, start)
	switch {
	case a.lease == nil:
	case ep.Outcome == data.EnvError || ep.Outcome == data.Cancelled:
		// An instance that was left in the middle of a call may still be
		// working on it: it is not used again.
		a.lease.Fail(err)
	default:
		a.lease.Release(true)
	}
	ep.Exchanges, ep.Created = exchanges, created
	var prompt *agent.PromptError
	if errors.As(err, &prompt) {
		return ep, prompt
	}
	var lost interface{ Hopeless() bool }
	if errors.As(err, &lost) && lost.Hopeless() {
		return ep, err // every other episode would fail alike
	}
	return ep, a.end
}
