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

// attempt is one attempt at a job.
type attempt struct {
	job      *job
	env      Env
	lease    *pool.Lease // nil if none is available
	session  *engine.Session
	record   env.Recorder
	failed   *data.Episode // the result of an attempt that could not start
	joined   bool          // the episode is a member of its group
	lastLost error         // the last error that noteLost has recorded

	// The results of the attempt besides its episode:
	end      error // if not nil, the error that ends the rollout
	hopeless bool  // another attempt would fail in the same way
	moved    bool  // the episode must be played on the server of its group
	bad      bool  // the task of the job is excluded
}

// begin starts an attempt at j and leases an instance for it. If the parameter now
// is true, begin does not wait: it returns nil if the pool is full.
func (r *run) begin(ctx context.Context, j *job, now bool) *attempt {
	a := &attempt{job: j, env: r.envs[j.task.Table()]}
	err := a.acquire(ctx, now)
	if errors.Is(err, pool.ErrFull) {
		return nil
	}
	j.attempts++
	if err != nil {
		a.fail(ctx, data.EnvError, err)
	}
	return a
}

// acquire leases an instance on a server on which the episode may be played. If the
// parameter now is true, acquire returns pool.ErrFull instead of waiting.
func (a *attempt) acquire(ctx context.Context, now bool) (err error) {
	bad, failed := a.job.resets.badTask()
	if bad != nil {
		a.lease, a.hopeless = nil, true
		return bad
	}
	at := pool.Place{Only: a.job.group.server(), Avoid: failed, NoWait: now}
	a.lease, err = a.env.Pool.AcquireAt(ctx, at)
	if down, ok := errors.AsType[*pool.DownError](err); ok {
		a.end = down // end the rollout: no server came back while the pool waited, and every other job would wait as long
	}
	_, a.hopeless = errors.AsType[*pool.ServerDownError](err) // do not retry: the group cannot play on another server
	if err != nil && at.Only != "" {
		err = fmt.Errorf("the group plays on %s, because other servers have another task: %w", at.Only, err)
	}
	return err
}

// onReset adds the episode to its group.
func (a *attempt) onReset(ctx context.Context, first string) error {
	a.job.resets.succeeded(a.job)
	alike, err := a.job.group.join(ctx, a.job, Start{first, a.lease.Server()})
	if a.joined = err == nil; a.joined && !alike {
		a.env.Pool.WarnOnce("random starts", "resets of one task give different starts, so the rewards of a group also depend on the start",
			"task", a.job.task.ID, "server", a.lease.Server())
	}
	return err
}

// noteLost records a lost instance for the detection of bad tasks.
func (a *attempt) noteLost(o Options, lost error) {
	a.lastLost = lost
	bad, first := a.job.resets.failed(a.job, a.lease.Server(), lost, a.env.Pool.InService())
	if first {
		o.Log.Warn("task excluded", "task", bad.Task, "error", bad)
	}
}

// replacement returns a function that leases a new instance for a lost one. In a
// wave the function does not wait for an instance that another episode uses, because
// the episodes of a wave wait for each other.
func (a *attempt) replacement(o Options) func(context.Context, error) (env.Client, error) {
	return func(ctx context.Context, lost error) (env.Client, error) {
		o.Log.Debug("instance lost, continuing on another", "task", a.job.task.ID, "sample", a.job.sample, "server", a.lease.Server(), "error", lost)
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

// openSession opens the session before the episode starts.
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

// play plays the attempt and releases its lease and session.
func (a *attempt) play(ctx context.Context, o Options) *data.Episode {
	defer a.job.group.releaseLeader(a.job)
	defer func() {
		bad, _ := a.job.resets.badTask()
		a.bad = bad != nil
	}()
	if a.failed != nil {
		return a.failed
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
	if o.Observer != nil {
		observe(o.Observer, &start)
	}
	ep, err := agent.RunEpisode(ctx, a.env.Setup, start)
	if o.Observer != nil {
		o.Observer.Ended(runningOf(&start), ep)
	}
	if a.joined && !ep.Outcome.Trainable() {
		a.job.group.leave()
	}
	if err != nil && a.lease != nil && (a.lastLost == nil || !errors.Is(err, a.lastLost)) {
		a.noteLost(o, err)
	}
	other, differs := errors.AsType[*startError](err)
	a.moved = differs && other.move
	if a.lease != nil {
		ep.Server = a.lease.Server()
		switch {
		case a.moved:
			a.env.Pool.WarnOnce("mixed starts", "environment servers have different tasks under one index, so each group of episodes plays on one server; "+
				"start the servers with the same data and the same PYTHONHASHSEED", "task", other.task, "servers", []string{other.group.Server, other.here.Server})
			a.lease.Release()
		case differs:
			a.lease.Release()
		case ep.Outcome == data.EnvError || ep.Outcome == data.Cancelled:
			// The instance may still be busy with an interrupted call, so it is
			// not used again.
			a.lease.Fail(err)
		default:
			a.lease.Release()
		}
	}
	ep.Exchanges, ep.Created = exchanges, created
	prompt, tooLong := errors.AsType[*agent.PromptError](err)
	var lost interface{ Hopeless() bool }
	switch {
	case ep.Outcome == data.OverlongPrompt:
	case tooLong:
		a.end = prompt
	case errors.As(err, &lost) && lost.Hopeless():
		a.end = err // every other episode would fail in the same way
	}
	return ep
}
