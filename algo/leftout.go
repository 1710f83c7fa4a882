package algo

import (
	"context"
	"fmt"
	"slices"

	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/data"
)

// Tasks that cannot be played are replaced by the next tasks:
//
//   - Tasks with a first prompt that is too long, if data.filter_overlong is set (verl's
//     data.filter_overlong_prompts). Differs from verl in: verl measures the rows of a
//     data file before training; here the prompt is known after the environment's reset.
//   - Tasks that no server can reset (rollout.BadTaskError).

// maxRedraws bounds the number of times that a batch draws replacements.
const maxRedraws = 10

// playedTasks are drawn tasks with their episodes.
type playedTasks struct {
	tasks    []data.Task
	episodes []*data.Episode
	stats    rollout.Stats
}

func (a *playedTasks) add(b playedTasks) {
	a.tasks, a.episodes = append(a.tasks, b.tasks...), append(a.episodes, b.episodes...)
	a.stats.Add(b.stats)
}

// playDrawn plays tasks and draws replacements for tasks that cannot be played. It
// returns all drawn tasks and their episodes, or an error if no task can be played.
func (p *player) playDrawn(ctx context.Context, step int, tasks []data.Task, o rollout.Options) (all playedTasks, err error) {
	wanted := len(tasks)
	for n := 0; ; n++ {
		episodes, stats, err := p.rollOut(ctx, ctx, p.trainEnvs(step), tasks, o)
		if err != nil {
			return all, err
		}
		all.add(playedTasks{tasks, episodes, stats})
		overlong, bad := overlongTasks(episodes), badTasks(episodes, stats.BadTasks)
		lost := len(overlong) + len(bad)
		if lost == 0 {
			return all, nil
		}
		if len(overlong) > 0 {
			p.Log.Info("tasks left out: the first prompt is too long", "step", step, "tasks", overlong)
		}
		if n == maxRedraws {
			if lost == wanted {
				return all, p.checkPlayable(all.episodes)
			}
			p.Log.Warn(fmt.Sprintf("the step has only %d of %d tasks: the first prompt of the other tasks is too long, or no server can reset them", wanted-lost, wanted), "step", step)
			return all, nil
		}
		o.Earlier = slices.Concat(o.Earlier, tasks)
		o.Before.Episodes, o.Before.Failed = all.stats.Total, all.stats.Failed
		tasks = p.choose(step, lost)
	}
}

// overlongTasks returns the ids of tasks with the outcome data.OverlongPrompt in all
// episodes, once for every time that the task was drawn.
func overlongTasks(episodes []*data.Episode) []string {
	return unplayed(episodes, func(ep *data.Episode) bool { return ep.Outcome == data.OverlongPrompt })
}

// badTasks returns the ids in the list bad whose episodes all failed in the environment,
// once for every time that the task was drawn.
func badTasks(episodes []*data.Episode, bad []string) []string {
	return unplayed(episodes, func(ep *data.Episode) bool {
		return ep.Outcome == data.EnvError && slices.Contains(bad, ep.Task.ID)
	})
}

// unplayed returns the task ids of the groups in which the function lost returns true for every episode.
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

// groupsWith reports, by uid, whether the function match returns true for an episode of the group.
func groupsWith(episodes []*data.Episode, match func(*data.Episode) bool) map[string]bool {
	groups := map[string]bool{}
	for _, ep := range episodes {
		groups[ep.UID] = groups[ep.UID] || match(ep)
	}
	return groups
}

// checkPlayable returns the error of a step in which no task can be played.
func (p *player) checkPlayable(episodes []*data.Episode) error {
	if err := checkOverlong("", episodes); err != nil {
		return err
	}
	i := slices.IndexFunc(episodes, func(ep *data.Episode) bool { return ep.Outcome == data.EnvError })
	ep := episodes[i]
	return &rollout.FailedError{Failed: count(episodes, data.EnvError), Total: len(episodes), Task: ep.Task.ID, Sample: ep.Sample,
		Attempts: ep.Attempts, Outcome: ep.Outcome, Words: ep.Err}
}

// OverlongError reports that the prompts of all tasks of a step or of a validation are
// too long.
type OverlongError struct {
	Env    string // environment of the validation; "" for a step
	Prompt string // the error of one of the tasks
}

// Error implements error.
func (e *OverlongError) Error() string {
	of := "the step"
	if e.Env != "" {
		of = e.Env
	}
	return fmt.Sprintf("data.filter_overlong leaves out every task of %s: %s", of, e.Prompt)
}

// checkOverlong returns an OverlongError if the prompts of all episodes are too long.
func checkOverlong(env string, episodes []*data.Episode) error {
	if n := count(episodes, data.OverlongPrompt); n == 0 || n < len(episodes) {
		return nil
	}
	return &OverlongError{Env: env, Prompt: episodes[0].Err}
}
