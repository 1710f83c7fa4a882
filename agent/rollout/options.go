package rollout

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env/pool"
)

// Env is one environment's side of a rollout: where its instances come from
// and how its episodes are played.
type Env struct {
	Pool  *pool.Pool
	Setup agent.Setup
	// MaxLeases is the most instances Pool leases at once, 0 if it has no
	// bound. A deterministic wave, which holds all its leases at once, is kept
	// within it.
	MaxLeases int
}

// Options of RunEpisodes.
type Options struct {
	GroupSize   int // samples per task
	Concurrency int // episodes at a time
	Seed        uint64
	Step        int // training step, part of the seeds
	// Earlier are tasks that the step has played before. One that comes again
	// makes a group with a uid and draws of its own.
	Earlier []data.Task
	// Attempts is the most times an episode is begun; 0 means 3. An attempt
	// that a failure of the infrastructure ended is played anew, from the same
	// seed, with a fresh lease.
	Attempts int
	// Replays is the most instances in a row that the environment may lose at
	// one point of an attempt and that are replaced by another, on which the
	// actions so far are repeated, where that is possible (agent.Start.Another,
	// agent.Start.Replays). Where it is not, or no more, the attempt has failed.
	Replays int
	// EpisodeTimeout bounds one attempt, waiting for a lease not included; 0
	// is no bound.
	EpisodeTimeout time.Duration
	// MaxFailed is the share of episodes that may fail for good before
	// RunEpisodes gives up; 0 means that it gives up only when all failed, and
	// not all of them for a task that no server can reset (BadTaskError).
	MaxFailed float64
	// Before is what an earlier rollout has played of the same tasks, and what
	// of it failed for good: MaxFailed is a share of those too.
	Before struct{ Episodes, Failed int }
	// Deterministic plays in waves of fixed membership, as an engine with
	// engine.Options.Deterministic needs it: the next wave begins when the
	// last episode of this one has ended. Retries come in waves at the end.
	Deterministic bool
	// Exchanges keeps the HTTP exchanges of every episode.
	Exchanges bool

	// Skip, if set, says which episodes are not played: those that an earlier
	// rollout has played. uid is that of Episode.UID.
	Skip func(uid string, sample int) bool

	// Starts are those of groups that an earlier rollout has played a part of, by
	// uid (see StartsOf): what is left of a group begins as that did.
	Starts map[string]Start

	// OnEpisode, if set, gets every episode that was begun once it is final,
	// in the order in which they end, but for those whose failure ends the
	// rollout. Its error ends the rollout.
	OnEpisode func(*data.Episode) error
	// OnWave, if set, gets the final episodes of a wave, in order, once the
	// wave has ended; none of a wave that was broken off. Its error ends the
	// rollout.
	OnWave func([]*data.Episode) error
	// OnProgress, if set, is told how far the rollout is after every episode.
	OnProgress func(Progress)
	Log        *slog.Logger // nil: silent
}

// Progress is how far a rollout is.
type Progress struct {
	Done, Total   int
	Success       int
	Failed        int // dropped after the last attempt
	SampledTokens int
}

// Stats sum a rollout up.
type Stats struct {
	Progress
	Retries int // attempts beyond the first
	Replays int // instances that took the place of lost ones inside attempts
	Turns   int
	Tokens  int // in all episodes, sampled ones included
	Elapsed time.Duration
	// MixedStarts counts groups whose task differed between servers and was
	// therefore played on one of them.
	MixedStarts int
	// BadTasks are the ids of tasks that were left out since no server could
	// reset them.
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
	s.BadTasks = append(s.BadTasks, o.BadTasks...)
}

func (o Options) withDefaults() Options {
	if o.Attempts == 0 {
		o.Attempts = 3
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// validate names every fault of the arguments.
func validate(envs map[string]Env, tasks []data.Task, o Options) error {
	var errs []error
	atLeast := func(name string, v, least int) {
		if v < least {
			errs = append(errs, fmt.Errorf("%s is %d, want at least %d", name, v, least))
		}
	}
	atLeast("group_size", o.GroupSize, 1)
	atLeast("concurrency", o.Concurrency, 1)
	atLeast("attempts", o.Attempts, 1)
	atLeast("replays", o.Replays, 0)
	if !(o.MaxFailed >= 0 && o.MaxFailed < 1) {
		errs = append(errs, fmt.Errorf("the share of episodes that may fail is %g, want it in [0, 1)", o.MaxFailed))
	}
	asked := map[string]bool{}
	for _, task := range tasks {
		if asked[task.Table()] {
			continue
		}
		asked[task.Table()] = true
		e, ok := envs[task.Table()]
		if !ok {
			errs = append(errs, fmt.Errorf("task %s belongs to environment %q, which is not part of this run", task.ID, task.Table()))
		} else if err := e.Setup.Options.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("environment %s: %w", task.Table(), err))
		}
	}
	return errors.Join(errs...)
}
