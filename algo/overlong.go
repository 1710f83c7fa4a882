package algo

import (
	"context"
	"fmt"

	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/data"
)

// Tasks whose first prompt is too long, where data.filter_overlong leaves them
// out (verl's data.filter_overlong_prompts). Differs from verl in: verl measures
// the rows of a data file before training. A prompt here is known once the
// environment has been reset, so such a task is found when it is drawn, and the
// next task takes its place in the step.

// maxOverlongDraws is how often tasks are drawn in place of overlong ones in a
// batch of a step.
const maxOverlongDraws = 10

// playFitting plays tasks, and draws others in place of overlong ones. It
// returns all that were drawn, with all their episodes. A step in which no task
// fits is an error.
func (t *Trainer) playFitting(ctx context.Context, step int, tasks []data.Task, o rollout.Options) (drawn []data.Task, episodes []*data.Episode, stats rollout.Stats, err error) {
	wanted := len(tasks)
	for n := 0; ; n++ {
		played, s, err := rollout.RunEpisodes(ctx, t.trainEnvs(step), tasks, o)
		if err != nil {
			return nil, nil, s, err
		}
		drawn, episodes = append(drawn, tasks...), append(episodes, played...)
		stats.Add(s)
		overlong := overlongTasks(played)
		if len(overlong) == 0 {
			return drawn, episodes, stats, nil
		}
		t.log.Info("tasks left out: their first prompts are too long", "step", step, "tasks", overlong)
		if n == maxOverlongDraws {
			left := wanted - len(overlong)
			if left == 0 {
				return nil, nil, stats, t.checkOverlong("", episodes)
			}
			t.log.Warn(fmt.Sprintf("the step has %d of %d tasks: the first prompts of the others are too long", left, wanted), "step", step)
			return drawn, episodes, stats, nil
		}
		o.Earlier = append(o.Earlier[:len(o.Earlier):len(o.Earlier)], tasks...)
		o.Before.Episodes, o.Before.Failed = stats.Total, stats.Failed
		tasks = t.choose(step, len(overlong))
	}
}

// overlongTasks are the ids of the tasks all of whose episodes ended with
// data.OverlongPrompt, a task for every time it was drawn.
func overlongTasks(episodes []*data.Episode) []string {
	fits := fittingGroups(episodes)
	var ids []string
	for _, ep := range episodes {
		if fit, first := fits[ep.UID]; first && !fit {
			ids = append(ids, ep.Task.ID)
		}
		delete(fits, ep.UID)
	}
	return ids
}

// fittingGroups says, by uid, which groups have an episode whose prompt fits.
func fittingGroups(episodes []*data.Episode) map[string]bool {
	fits := map[string]bool{}
	for _, ep := range episodes {
		fits[ep.UID] = fits[ep.UID] || ep.Outcome != data.OverlongPrompt
	}
	return fits
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
func (t *Trainer) checkOverlong(env string, episodes []*data.Episode) error {
	if n := count(episodes, data.OverlongPrompt); n == 0 || n < len(episodes) {
		return nil
	}
	return &OverlongError{Env: env, Prompt: episodes[0].Err}
}

// filtersOverlong reports whether any environment leaves out overlong tasks.
func (t *Trainer) filtersOverlong() bool {
	for _, e := range t.envs {
		if e.Train.Setup.Options.FilterOverlong {
			return true
		}
	}
	return false
}
