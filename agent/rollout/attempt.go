package rollout

import (
	"context"
	"errors"
	"fmt"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/pool"
)

// attempt is one try at a job. Its lease and its session are taken before it
// is played where batches are formed in a fixed order.
type attempt struct {
	job     *job
	env     Env
	lease   *pool.Lease // nil: none could be had, or none in place of a lost one
	session *engine.Session
	record  env.Recorder
	// failed is the result of an attempt that could not begin.
	failed   *data.Episode
	joined   bool  // the group
	lastLost error // the last lost instance that unstarted was told of
	// end is why no episode of the rollout is worth beginning any more.
	end error
	// hopeless says that another attempt would fail alike.
	hopeless bool
}

// result is what became of an attempt.
type result struct {
	episode  *data.Episode
	end      error // if not nil, it ends the whole rollout
	moved    bool  // the episode has to be played on the server of its group
	hopeless bool  // another attempt would fail alike
	bad      bool  // its task is left out
}

// begin counts a try at j and leases an instance for it.
func (r *run) begin(ctx context.Context, j *job) *attempt {
	a := &attempt{job: j, env: r.envs[j.task.Table()]}
	a.count(ctx, a.acquire(ctx, false))
	return a
}

// tryBegin is begin for one who holds leases that nobody gives back before: nil
// where there is no place for another.
func (r *run) tryBegin(ctx context.Context, j *job) *attempt {
	a := &attempt{job: j, env: r.envs[j.task.Table()]}
	err := a.acquire(ctx, true)
	if errors.Is(err, pool.ErrFull) {
		return nil
	}
	a.count(ctx, err)
	return a
}

func (a *attempt) count(ctx context.Context, err error) {
	a.job.attempts++
	if err != nil {
		a.fail(ctx, data.EnvError, err)
	}
}

// acquire leases an instance on a server where the episode may be played.
func (a *attempt) acquire(ctx context.Context, now bool) (err error) {
	bad, failed := a.job.resets.badTask()
	if bad != nil {
		a.lease, a.hopeless = nil, true
		return bad
	}
	at := pool.Place{Only: a.job.group.server(), Avoid: failed, NoWait: now}
	a.lease, err = a.env.Pool.AcquireAt(ctx, at)
	var down *pool.DownError
	if errors.As(err, &down) {
		a.end = down // the pool has waited: the next job would wait as long again
	}
	var group *pool.ServerDownError
	a.hopeless = errors.As(err, &group) // likewise, and the group can play nowhere else
	if err != nil && at.Only != "" {
		err = fmt.Errorf("the group plays on %s, and other servers show another task: %w", at.Only, err)
	}
	return err
}

// onReset makes the episode a member of its group.
func (a *attempt) onReset(ctx context.Context, first string) error {
	a.job.resets.succeeded(a.job)
	alike, err := a.job.group.join(ctx, a.job, Start{first, a.lease.Server()})
	if a.joined = err == nil; a.joined && !alike {
		a.env.Pool.WarnOnce("random starts", "one task begins differently each time it is reset: the rewards of a group also depend on how its episodes began",
			"task", a.job.task.ID, "server", a.lease.Server())
	}
	return err
}

// noteLost notes an instance that was lost, where the reset of the task was
// what failed.
func (a *attempt) noteLost(o Options, lost error) {
	a.lastLost = lost
	bad, first := a.job.resets.failed(a.job, a.lease.Server(), lost, a.env.Pool.InService())
	if first {
		o.Log.Warn("task left out", "task", bad.Task, "error", bad)
	}
}

// replacement takes a fresh instance for a lost one. In a wave, whose episodes wait
// for each other, it does not wait for one that replacement episode has.
func (a *attempt) replacement(o Options) func(context.Context, error) (env.Client, error) {
	return func(ctx context.Context, lost error) (env.Client, error) {
		o.Log.Debug("instance lost, going on with another", "task", a.job.task.ID, "sample", a.job.sample, "server", a.lease.Server(), "error", lost)
		a.noteLost(o, lost)
		a.lease.Fail(lost)
		err := a.acquire(ctx, o.Deterministic)
		switch {
		case errors.Is(err, pool.ErrFull):
			return nil, nil
		case err != nil:
			return nil, err
		}
		a.lease.Record(a.record)
		return a.lease.Client(), nil
	}
}

// openSession takes a session beforehand.
func (a *attempt) openSession(ctx context.Context) {
	if a.failed != nil {
		return
	}
	setup := a.env.Setup
	session, err := setup.Engine.Open(ctx, setup.SessionOptions(a.start()))
	if err != nil {
		a.lease.Release()
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

// play plays the attempt and gives lease and session back.
func (a *attempt) play(ctx context.Context, o Options) result {
	defer a.job.group.releaseLeader(a.job)
	if a.failed != nil {
		bad, _ := a.job.resets.badTask()
		return result{episode: a.failed, end: a.end, hopeless: a.hopeless, bad: bad != nil}
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
	start.Replace, start.Replays, start.OnReset = a.replacement(o), o.Replays, a.onReset
	ep, err := agent.RunEpisode(ctx, a.env.Setup, start)
	if a.joined && !ep.Outcome.Trainable() {
		a.job.group.leave()
	}
	if err != nil && a.lease != nil && (a.lastLost == nil || !errors.Is(err, a.lastLost)) {
		a.noteLost(o, err)
	}
	bad, _ := a.job.resets.badTask()
	res := result{episode: ep, end: a.end, hopeless: a.hopeless || bad != nil, bad: bad != nil}
	var other *otherStartError
	var changed *ChangedStartError
	res.moved = errors.As(err, &other)
	if a.lease != nil {
		ep.Server = a.lease.Server()
		switch {
		case res.moved:
			a.env.Pool.WarnOnce("mixed starts", "environment servers show different tasks under one index: each group of episodes plays on one of them; "+
				"start the servers with the same data and the same PYTHONHASHSEED", "task", other.Task, "servers", []string{other.Group.Server, other.Here.Server})
			a.lease.Release()
		case errors.As(err, &changed):
			a.lease.Release()
		case ep.Outcome == data.EnvError || ep.Outcome == data.Cancelled:
			// An instance that was left in the middle of a call may still be
			// working on it: it is not used again.
			a.lease.Fail(err)
		default:
			a.lease.Release()
		}
	}
	ep.Exchanges, ep.Created = exchanges, created
	var prompt *agent.PromptError
	var lost interface{ Hopeless() bool }
	switch {
	case ep.Outcome == data.OverlongPrompt:
	case errors.As(err, &prompt):
		res.end = prompt
	case errors.As(err, &lost) && lost.Hopeless():
		res.end = err // every other episode would fail alike
	}
	return res
}
