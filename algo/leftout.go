package algo

import (
	"context"
	"fmt"
	"slices"

	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/data"
)

// Tasks that a step draws and cannot play. The next tasks take their places.
//
//   - Tasks whose first prompt is too long, if data.filter_overlong is set (verl's
//     data.filter_overlong_prompts). Differs from verl in: verl measures the rows of
//     a data file before training. A prompt here is known once the environment has
//     been reset.
//   - Tasks that no server can reset (rollout.BadTaskError).

// maxRedraws is how often tasks are drawn in place of others in a batch of a
// step.
const maxRedraws = 10

// playDrawn plays tasks, and draws others in place of those that cannot be
// played. It returns all that were drawn, with all their episodes. A step in
// which no task can be played is an error.
func (p *player) playDrawn(ctx context.Context, step int, tasks []data.Task, o rollout.Options) (drawn []data.Task, episodes []*data.Episode, stats rollout.Stats, err error) {
	wanted := len(tasks)
	for n := 0; ; n++ {
		played, s, err := rollout.RunEpisodes(ctx, p.trainEnvs(step), tasks, o)
		if err != nil {
			return nil, nil, s, err
		}
		drawn, episodes = append(drawn, tasks...), append(episodes, played...)
		stats.Add(s)
		overlong, bad := overlongTasks(played), badTasks(played, s.BadTasks)
		lost := len(overlong) + len(bad)
		if lost == 0 {
			return drawn, episodes, stats, nil
		}
		if len(overlong) > 0 {
			p.Log.Info("tasks left out: their first prompts are too long", "step", step, "tasks", overlong)
		}
		if n == maxRedraws {
			if lost == wanted {
				return nil, nil, stats, p.checkPlayable(episodes)
			}
			p.Log.Warn(fmt.Sprintf("the step has %d of %d tasks: the others have too long first prompts, or no server can reset them", wanted-lost, wanted), "step", step)
			return drawn, episodes, stats, nil
		}
		o.Earlier = append(o.Earlier[:len(o.Earlier):len(o.Earlier)], tasks...)
		o.Before.Episodes, o.Before.Failed = stats.Total, stats.Failed
		tasks = p.choose(step, lost)
	}
}

// overlongTasks are the ids of the tasks all of whose episodes ended with
// data.OverlongPrompt, a task for every time it was drawn.
func overlongTasks(episodes []*data.Episode) []string {
	return unplayed(episodes, func(ep *data.Episode) bool { return ep.Outcome == data.OverlongPrompt })
}

// badTasks are the ids of those tasks of bad that have no trainable episode, a
// task for every time it was drawn.
func badTasks(episodes []*data.Episode, bad []string) []string {
	return unplayed(episodes, func(ep *data.Episode) bool {
		return ep.Outcome == data.EnvError && slices.Contains(bad, ep.Task.ID)
	})
}

// unplayed are the tasks of the groups all of whose episodes are lost.
func unplayed(episodes []*data.Episode, lost func(*data.Episode) bool) (ids []string) {
	played := groupsWith(episodes, func(ep *data.Episode) bool { return !lost(ep) })
	for _, ep := range episodes {
		if yes, first := played[ep.UID]; first && !yes {
			ids = append(ids, ep.Task.ID)
		}
		delete(played, ep.UID)
	}
	return ids
}

// groupsWith says, by uid, which groups have an episode that is so.
func groupsWith(episodes []*data.Episode, is func(*data.Episode) bool) map[string]bool {
	groups := map[string]bool{}
	for _, ep := range episodes {
		groups[ep.UID] = groups[ep.UID] || is(ep)
	}
	return groups
}

// checkPlayable returns the error of a step none of whose tasks can be played.
func (p *player) checkPlayable(episodes []*data.Episode) error {
	if err := checkOverlong("", episodes); err != nil {
		return err
	}
	failed := count(episodes, data.EnvError)
	for _, ep := range episodes {
		if ep.Outcome == data.EnvError {
			return &rollout.FailedError{Failed: failed, Total: len(episodes), Task: ep.Task.ID, Sample: ep.Sample, Attempts: ep.Attempts,
				Outcome: ep.Outcome, Words: ep.Err}
		}
	}
	return nil
}

// OverlongError says that no task of a step or of a validation can be played.
type OverlongError struct {
	Env    string // "" where it is about a step
	Prompt string // what is said of one of them
}

// Error shows one of the tasks.
func (e *OverlongError) Error() string {
	of := "the step"
	if e.Env != "" {
		of = e.Env
	}
	return fmt.Sprintf("data.filter_overlong leaves out every task of %s: %s", of, e.Prompt)
}

// checkOverlong returns an error if all episodes are of overlong prompts.
func checkOverlong(env string, episodes []*data.Episode) error {
	if n := count(episodes, data.OverlongPrompt); n == 0 || n < len(episodes) {
		return nil
	}
	return &OverlongError{Env: env, Prompt: episodes[0].Err}
}

// filtersOverlong reports whether any environment leaves out overlong tasks.
func (p *player) filtersOverlong() bool {
	for _, e := range p.Envs {
		if e.Train.Setup.Options.FilterOverlong {
			return true
		}
	}
	return false
}
