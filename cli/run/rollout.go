package run

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/openmanus/openmanus/agent/eval"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/internal/errext"
)

// RolloutOptions are the options of Rollout that are not configuration keys.
type RolloutOptions struct {
	PlayOptions
	Dump      string // file of the episodes, one JSON line each
	Continue  bool   // append to an existing dump
	RetryLost bool   // with Continue: play lost episodes again
}

// RolloutResult describes the dump after Rollout.
type RolloutResult struct {
	Env      string     `json:"env"`
	Dump     string     `json:"dump"`
	Before   int        `json:"before"`   // number of episodes in the dump before Rollout
	Episodes int        `json:"episodes"` // number of episodes in the dump after Rollout
	Of       int        `json:"of"`       // number of requested episodes
	Lost     int        `json:"lost"`     // number of episodes lost to failures of servers or the engine
	Outcomes eval.Tally `json:"outcomes"`
	eval.Infrastructure
}

// String returns the result as one line, and a second one if servers failed.
func (r RolloutResult) String() string {
	line := fmt.Sprintf("%s: %d of %d episodes, %d lost", r.Dump, r.Episodes, r.Of, r.Lost)
	if len(r.Outcomes) > 0 {
		line += ": " + r.Outcomes.String()
	}
	return line + "\n" + r.Line()
}

// Rollout plays every task of the environment. It writes episodes to a dump as they
// end, or wave by wave if rollout.deterministic is set, so that an interrupted
// rollout keeps its finished episodes. The result is nil if nothing was played.
// With an error, the result describes the dump after the error.
func (r *Run) Rollout(ctx context.Context, o RolloutOptions) (result *RolloutResult, err error) {
	var was dump.Header
	if o.Continue {
		was = headerOf(r.host.Path(o.Dump))
	}
	day, _ := was.Options[DayOption].(string)
	p, err := r.openPlayer(ctx, o.PlayOptions, day)
	defer func() { err = errors.Join(err, p.close()) }()
	if err != nil {
		return nil, err
	}
	hash, err := p.weights(ctx)
	if err != nil {
		return nil, err
	}
	err = p.lead(ctx, func() (err error) {
		result, err = p.rollout(ctx, o, was, hash)
		return err
	})
	return result, err
}

// rollout plays the tasks with the weights of the hash. The header of an existing dump is was.
func (p *player) rollout(ctx context.Context, o RolloutOptions, was dump.Header, hash string) (*RolloutResult, error) {
	options := p.dumpOptions()
	options[dump.TasksOption] = tasksPart(p.tasks, p.world.Spec.Prompts)
	held, err := p.openDump(o, was, dump.Header{Weights: hash, Options: options})
	if err != nil {
		return nil, err
	}
	result := &RolloutResult{Env: p.cfg.Env[0].Name, Dump: o.Dump, Before: held.outcomes.Episodes(), Of: p.total()}
	result.Infrastructure, err = p.playInto(ctx, o, held)
	result.Episodes, result.Lost, result.Outcomes = held.outcomes.Episodes(), held.outcomes.Lost(), held.outcomes
	return result, errors.Join(err, errext.With(errext.Disk, "", held.out.Close()))
}

// heldEpisodes is an open dump and the episodes in it.
type heldEpisodes struct {
	out      *dump.Writer
	episodes map[episodeKey]bool
	outcomes eval.Tally
	waves    int
	starts   map[string]rollout.Start // starts of the groups in the dump
}

// episodeKey identifies an episode of a dump.
type episodeKey struct {
	uid    string
	sample int
}

// openDump creates the dump with the given header, or continues the existing dump, whose header is was.
func (p *player) openDump(o RolloutOptions, was, header dump.Header) (*heldEpisodes, error) {
	held := &heldEpisodes{episodes: map[episodeKey]bool{}, outcomes: eval.Tally{}, starts: map[string]rollout.Start{}}
	path := p.host.Path(o.Dump)
	var err error
	if !o.Continue {
		held.out, err = dump.Create(path, header)
		return held, errext.With(errext.Disk, "", err)
	}
	if header, err = headerToContinue(o.Dump, was, header); err != nil {
		return nil, err
	}
	retried := 0
	drop := func(ep *data.Episode) bool {
		if !o.RetryLost || ep.Outcome.Trainable() {
			return false
		}
		retried++
		return true
	}
	held.out, err = dump.Continue(path, header, drop, func(ep *data.Episode) error {
		key := episodeKey{ep.UID, ep.Sample}
		if held.episodes[key] {
			return fmt.Errorf("%s, sample %d, occurs twice: another program wrote to it", ep.Task.ID, ep.Sample)
		}
		held.episodes[key] = true
		held.waves = max(held.waves, ep.Wave)
		held.outcomes[ep.Outcome]++
		maps.Copy(held.starts, rollout.StartsOf([]*data.Episode{ep}))
		return nil
	})
	if err != nil {
		return nil, errext.With(errext.Input, "", err)
	}
	p.host.Log.Info("continuing the dump", "file", o.Dump, "episodes", len(held.episodes), "retried", retried)
	if lost := held.outcomes.Lost(); lost > 0 {
		p.host.Log.Warn("the dump has episodes that were lost to failures of servers or the engine; --retry-lost plays them again", "episodes", lost)
	}
	return held, nil
}

// playInto plays the episodes that the dump does not hold, and appends them.
func (p *player) playInto(ctx context.Context, o RolloutOptions, held *heldEpisodes) (eval.Infrastructure, error) {
	before, lost := held.outcomes.Episodes(), held.outcomes.Lost()
	if float64(lost) > o.MaxLost*float64(p.total()) {
		code := errext.Env
		if p.endpoint == nil && held.outcomes[data.EnvError] == 0 {
			code = errext.Native
		}
		return eval.Infrastructure{}, errext.With(code, "give --retry-lost to play them again, or raise --max-lost",
			fmt.Errorf("%s: %d of %d episodes were lost to failures of servers or the engine", o.Dump, lost, p.total()))
	}
	write := func(episodes ...*data.Episode) error {
		if err := held.out.Write(episodes...); err != nil {
			return errext.With(errext.Disk, "make room, then add --continue to play the missing episodes; the file keeps the finished episodes", err)
		}
		for _, ep := range episodes {
			held.outcomes[ep.Outcome]++
		}
		return nil
	}
	_, met, err := p.play(ctx, o.PlayOptions, func(ro *rollout.Options) {
		ro.Exchanges = true
		ro.Before.Episodes, ro.Before.Failed = before, lost
		ro.Starts = held.starts
		ro.Skip = func(uid string, sample int) bool { return held.episodes[episodeKey{uid, sample}] }
		if ro.Deterministic {
			ro.OnWave = func(wave []*data.Episode) error {
				for _, ep := range wave {
					ep.Wave += held.waves
				}
				return write(wave...)
			}
			return
		}
		ro.OnEpisode = func(ep *data.Episode) error {
			if ep.Outcome == data.Cancelled { // the next rollout with Continue plays the episode
				return nil
			}
			return write(ep)
		}
	})
	if is[*rollout.FailedError](err) {
		err = errext.With(CodeOf(ctx, err), "fix or restart the servers, then add --continue --retry-lost to play the missing and the lost episodes; or raise --max-lost", err)
	}
	return met, err
}
