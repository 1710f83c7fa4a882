// Package rollout plays many episodes at once (OpenManus-RL's run_llm_loop).
//
// It contains groups of samples, the seeds of episodes, the leases of environment
// instances, retries after failures of servers or the engine, and the metrics of
// a set of episodes. The episode itself belongs to agent, batching to
// agent/llm/engine, scores to reward.
//
// Concurrency: RunEpisodes starts one goroutine per episode, at most
// Options.Concurrency at a time, and waits for all of them before it returns.
// Callbacks are called one at a time.
package rollout

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/openmanus/openmanus/data"
)

// RunEpisodes plays GroupSize episodes of every task and returns them ordered by
// task and sample, without the episodes that Skip excludes. Episodes that failed in all
// attempts are included with their outcome; data.Outcome.Trainable is false for
// them.
//
// It returns an error if ctx ends, if more episodes fail than MaxFailed allows,
// if no server of an environment answers (pool.DownError), if a task's first
// messages are too long (agent.PromptError), if an error's Hopeless method
// returns true, or if OnEpisode fails. The episodes are returned in these cases
// too; unfinished ones have the outcome cancelled.
func RunEpisodes(ctx context.Context, envs map[string]Env, tasks []data.Task, o Options) ([]*data.Episode, Stats, error) {
	o = o.withDefaults()
	if err := validate(envs, tasks, o); err != nil {
		return nil, Stats{}, fmt.Errorf("rollout: %w", err)
	}
	began := time.Now()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	jobs, groups, resets := jobsOf(tasks, envs, o)
	r := &run{envs: envs, o: o, stop: stop, episodes: make([]*data.Episode, len(jobs))}
	r.stats.Total = len(jobs)
	if o.Deterministic {
		r.waves(ctx, jobs)
	} else {
		r.stream(ctx, jobs)
	}
	var err error
	if ctx.Err() != nil {
		err = fmt.Errorf("rollout: %w", context.Cause(ctx))
	}
	for _, j := range jobs { // jobs that never started
		if r.episodes[j.slot] == nil {
			r.episodes[j.slot] = j.failure(data.Cancelled, err)
		}
	}
	for _, g := range groups {
		r.stats.MixedStarts += int(share(g.mixed))
	}
	for _, x := range resets {
		if x.bad != nil {
			r.stats.BadTasks = append(r.stats.BadTasks, x.task.ID)
		}
	}
	r.stats.Elapsed = time.Since(began)
	return r.episodes, r.stats, err
}

// FailedError is returned by RunEpisodes if more episodes failed than
// Options.MaxFailed allows. Its details describe the last failed episode.
type FailedError struct {
	Failed, Total    int
	Task             string
	Sample, Attempts int
	Outcome          data.Outcome
	Words            string // the error of this episode
}

// Error returns the number of failed episodes and the error of the last failed episode.
func (e *FailedError) Error() string {
	return fmt.Sprintf("%d of %d episodes failed, the last one (%s, sample %d, attempt %d) with %s: %s",
		e.Failed, e.Total, e.Task, e.Sample, e.Attempts, e.Outcome, e.Words)
}

// CheckFailed returns a FailedError if more episodes failed than Options.MaxFailed allows. The last failed episode is last.
func CheckFailed(o Options, s Stats, last *data.Episode) error {
	failed, total := s.Failed+o.Before.Failed, s.Total+o.Before.Episodes
	allFailed := failed == total && (o.MaxFailed > 0 || s.Excluded < s.Failed)
	if s.Failed == 0 || !allFailed && (o.MaxFailed == 0 || float64(failed) <= o.MaxFailed*float64(total)) {
		return nil
	}
	return &FailedError{
		Failed: failed, Total: total, Task: last.Task.ID, Sample: last.Sample, Attempts: last.Attempts,
		Outcome: last.Outcome, Words: last.Err,
	}
}

// run is the state of one call of RunEpisodes.
type run struct {
	envs map[string]Env
	o    Options
	stop context.CancelCauseFunc

	mu       sync.Mutex      // guards the fields below and serialises the callbacks
	episodes []*data.Episode // results, indexed by job.slot
	stats    Stats
}

// stream plays the jobs, Concurrency at a time.
func (r *run) stream(ctx context.Context, jobs []*job) {
	places := make(chan struct{}, r.o.Concurrency)
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, j := range jobs {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return
		}
		wg.Go(func() {
			defer func() { <-places }()
			for {
				a := r.begin(ctx, j, false)
				if r.finish(ctx, a, a.play(ctx, r.o)) {
					return
				}
			}
		})
	}
}

// waves plays the jobs in waves, one after the other. A wave's leases and sessions
// are acquired in order before its first episode starts. The membership of a
// wave depends only on outcomes, so a deterministic engine forms the same
// batches every time.
func (r *run) waves(ctx context.Context, jobs []*job) {
	for n := 1; len(jobs) > 0 && ctx.Err() == nil; n++ {
		wave := jobs[:r.waveSize(jobs)]
		attempts := []*attempt{r.begin(ctx, wave[0], false)}
		for _, j := range wave[1:] {
			a := r.begin(ctx, j, true)
			if a == nil { // no lease is free, because a server is out of service: play the jobs that have a lease
				break
			}
			attempts = append(attempts, a)
		}
		wave = wave[:len(attempts)]
		jobs = jobs[len(wave):]
		for _, a := range attempts {
			if a.end != nil {
				r.stop(a.end)
			}
		}
		for _, a := range attempts {
			if a.openSession(ctx); a.failed == nil {
				a.job.group.setLeader(a.job) // the group's start must not depend on timing
			}
		}
		retry := make([]bool, len(wave))
		var wg sync.WaitGroup
		for i, a := range attempts {
			wg.Go(func() {
				retry[i] = !r.finish(ctx, a, a.play(ctx, r.o))
			})
		}
		wg.Wait()
		var final []*data.Episode
		for i, j := range wave {
			if retry[i] {
				jobs = append(jobs, j)
			} else {
				final = append(final, r.episodes[j.slot])
			}
		}
		r.endWave(ctx, n, final)
	}
}

// endWave marks the final episodes of wave n and passes them to OnWave. It skips
// an interrupted wave, because the batches of its last turns differ from the batches of a
// complete wave.
func (r *run) endWave(ctx context.Context, n int, final []*data.Episode) {
	if ctx.Err() != nil || len(final) == 0 {
		return
	}
	for _, ep := range final {
		ep.Wave, ep.WaveSize = n, len(final)
	}
	if r.o.OnWave != nil {
		if err := r.o.OnWave(final); err != nil {
			r.stop(err)
		}
	}
}

// waveSize returns the number of leading jobs that fit into one wave. A wave holds all its
// leases at once.
func (r *run) waveSize(jobs []*job) int {
	taken := map[string]int{}
	for i, j := range jobs {
		limit := r.envs[j.task.Table()].Pool.MaxLeases()
		if i == r.o.Concurrency || limit > 0 && taken[j.task.Table()] == limit {
			return i
		}
		taken[j.task.Table()]++
	}
	return len(jobs)
}

// maxMoves bounds how often an episode moves to the server of its group. A
// second move happens only if all other episodes of the group fail in between.
const maxMoves = 10

// finish records the episode of an attempt and reports whether it is final. If
// not, the caller attempts the job again.
func (r *run) finish(ctx context.Context, a *attempt, ep *data.Episode) bool {
	j, end := a.job, a.end
	if end != nil {
		r.stop(end)
	}
	failed := end == nil && !ep.Outcome.Trainable() && ep.Outcome != data.Cancelled && ep.Outcome != data.OverlongPrompt
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Replays += ep.Replays
	if failed && a.moved && j.moves < maxMoves && ctx.Err() == nil {
		j.moves++
		j.attempts--
		r.o.Log.Debug("episode moves to the server of its group", "task", j.task.ID, "sample", j.sample, "reason", ep.Err)
		return false
	}
	if failed && !a.hopeless && !a.bad && j.attempts < r.o.Attempts {
		r.stats.Retries++
		r.o.Log.Warn("episode failed, retrying", "task", j.task.ID, "sample", j.sample, "attempt", j.attempts,
			"outcome", ep.Outcome, "error", ep.Err)
		return false
	}
	r.episodes[j.slot] = ep
	s := &r.stats
	s.Done++
	s.Turns += len(ep.Turns)
	s.Tokens += len(ep.Tokens)
	s.SampledTokens += ep.SampledTokens()
	switch {
	case ep.Outcome == data.Success:
		s.Success++
	case ep.Outcome == data.Cancelled, ep.Outcome == data.OverlongPrompt:
	case !ep.Outcome.Trainable():
		s.Failed++
		level := slog.LevelWarn
		if a.bad { // an earlier warning has named the task
			level = slog.LevelDebug
			s.Excluded++
		}
		r.o.Log.Log(ctx, level, "episode dropped", "task", j.task.ID, "sample", j.sample, "attempts", j.attempts,
			"outcome", ep.Outcome, "error", ep.Err)
		if r.o.Deal.Of <= 1 {
			if err := CheckFailed(r.o, r.stats, ep); err != nil {
				r.stop(err)
			}
		}
	}
	if r.o.OnEpisode != nil && end == nil {
		if err := r.o.OnEpisode(ep); err != nil {
			r.stop(err)
		}
	}
	if r.o.OnProgress != nil {
		r.o.OnProgress(s.Progress)
	}
	return true
}
