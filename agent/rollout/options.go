package rollout

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env/pool"
)

// Env is one environment of a rollout: the source of its instances and the
// settings of its episodes.
type Env struct {
	Pool  *pool.Pool
	Setup agent.Setup
}

// Options of RunEpisodes.
type Options struct {
	GroupSize   int // samples per task
	Concurrency int // simultaneous episodes
	Seed        uint64
	Step        int // training step; the seeds depend on it
	// Earlier lists tasks that the step has already played. If a listed task
	// occurs again, it forms a new group with another uid and other random draws.
	Earlier []data.Task
	// Attempts is the maximal number of attempts at an episode; 0 means 3. An
	// attempt that fails because of a server or the engine is repeated from the
	// same seed with a new lease.
	Attempts int
	// Replays bounds how many instances in a row an attempt may lose at one point.
	// Each lost instance is replaced by another instance, on which the actions so far are repeated
	// (agent.Start.Replace, agent.Start.Replays). Beyond this bound, or if the actions
	// cannot be repeated, the attempt fails.
	Replays int
	// EpisodeTimeout bounds the time of one attempt, without the wait for a
	// lease; 0 means no bound.
	EpisodeTimeout time.Duration
	// MaxFailed is the share of episodes that may fail in all attempts before
	// RunEpisodes gives up. With 0 it gives up only if all episodes fail, at least
	// one of them in a task that some server can reset (see BadTaskError).
	MaxFailed float64
	// Before counts the episodes of an earlier rollout of the same tasks. MaxFailed
	// applies to both rollouts together.
	Before struct{ Episodes, Failed int }
	// Deterministic plays in waves of fixed membership, as required by an engine
	// with engine.Options.Deterministic: a wave starts when the last episode of
	// the previous one has ended. Retries form waves at the end.
	Deterministic bool
	// Exchanges records the HTTP exchanges of every episode.
	Exchanges bool

	// Skip, if set, returns true for an episode that must not be played, because an
	// earlier rollout has played it. uid is Episode.UID.
	Skip func(uid string, sample int) bool

	// Deal, if its field Of is above 1, selects the groups that are dealt to this rollout: every Of-th group from Index on. Other
	// processes play the other groups. MaxFailed does not apply to a deal; call CheckFailed with the sum of all deals.
	Deal struct{ Index, Of int }

	// Starts holds, by uid, the starts of groups that an earlier rollout has partly
	// played (see StartsOf). The remaining episodes must have the same start.
	Starts map[string]Start

	// OnEpisode, if set, is called with every started episode when the episode is
	// final, in the order in which they end. It is not called with an episode whose
	// failure ends the rollout. An error of OnEpisode ends the rollout.
	OnEpisode func(*data.Episode) error
	// OnWave, if set, is called with the final episodes of a wave, in order, when
	// the wave has ended. It is not called for an interrupted wave. An error of
	// OnWave ends the rollout.
	OnWave func([]*data.Episode) error
	// OnProgress, if set, is called after every episode.
	OnProgress func(Progress)
	// Observer, if set, follows the episodes while they are played.
	Observer Observer
	Log      *slog.Logger // nil: no log
}

// Progress is the progress of a rollout.
type Progress struct {
	Done, Total   int
	Success       int
	Failed        int // dropped after the last attempt
	SampledTokens int
}

// Stats summarise a rollout.
type Stats struct {
	Progress
	Retries int // attempts beyond the first
	Replays int // lost instances that were replaced within attempts
	Turns   int
	Tokens  int // tokens in all episodes, sampled or not
	Elapsed time.Duration
	// MixedStarts counts groups that were played on one server because the
	// servers had different tasks.
	MixedStarts int
	// Excluded counts the failed episodes of the tasks in BadTasks.
	Excluded int
	// BadTasks holds the ids of excluded tasks, which no server could reset.
	BadTasks []string
}

// Add adds the stats of another rollout.
func (s *Stats) Add(o Stats) {
	s.Done += o.Done
	s.Total += o.Total
	s.Success += o.Success
	s.Failed += o.Failed
	s.SampledTokens += o.SampledTokens
	s.Retries += o.Retries
	s.Replays += o.Replays
	s.Turns += o.Turns
	s.Tokens += o.Tokens
	s.Elapsed += o.Elapsed
	s.MixedStarts += o.MixedStarts
	s.Excluded += o.Excluded
	s.BadTasks = append(s.BadTasks, o.BadTasks...)
}

func (o Options) withDefaults() Options {
	o.Attempts = cmp.Or(o.Attempts, 3)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// validate returns all faults of the arguments.
func validate(envs map[string]Env, tasks []data.Task, o Options) error {
	errs := []error{
		agent.AtLeast("group_size", o.GroupSize, 1),
		agent.AtLeast("concurrency", o.Concurrency, 1),
		agent.AtLeast("attempts", o.Attempts, 1),
		agent.AtLeast("replays", o.Replays, 0),
	}
	if !(o.MaxFailed >= 0 && o.MaxFailed < 1) {
		errs = append(errs, fmt.Errorf("the share of episodes that may fail is %g, must be in [0, 1)", o.MaxFailed))
	}
	checked := map[string]bool{}
	for _, task := range tasks {
		if checked[task.Table()] {
			continue
		}
		checked[task.Table()] = true
		e, ok := envs[task.Table()]
		if !ok {
			errs = append(errs, fmt.Errorf("task %s: environment %q is not part of this run", task.ID, task.Table()))
		} else if err := e.Setup.Options.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("environment %s: %w", task.Table(), err))
		}
	}
	return errors.Join(errs...)
}
