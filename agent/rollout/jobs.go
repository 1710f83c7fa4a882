package rollout

import (
	"fmt"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/data"
)

// job is one episode to be played.
type job struct {
	slot     int // in the result
	task     data.Task
	uid      string
	sample   int
	seed     uint64
	attempts int // so far
	moves    int // attempts that ended because the group plays on another server
	group    *group
	// failedResets counts the instances in a row that failed to reset the task.
	failedResets int
	resets       *resets
}

// jobsOf lists the episodes by task. A task that occurs twice forms two groups
// with different seeds.
func jobsOf(tasks []data.Task, o Options) []*job {
	var jobs []*job
	seen := map[string]int{}
	for _, task := range o.Earlier {
		seen[taskName(task)]++
	}
	for _, task := range tasks {
		name := taskName(task)
		repeat := seen[name]
		seen[name]++
		uid := fmt.Sprintf("%d/%s", o.Step, name)
		if repeat > 0 {
			uid += fmt.Sprintf("#%d", repeat+1)
		}
		for sample := range o.GroupSize {
			if o.Skip != nil && o.Skip(uid, sample) {
				continue
			}
			jobs = append(jobs, &job{
				slot:   len(jobs),
				task:   task,
				uid:    uid,
				sample: sample,
				seed:   EpisodeSeed(o.Seed, o.Step, task.Table(), task.ID, repeat, sample),
			})
		}
	}
	return jobs
}

func taskName(t data.Task) string { return t.Table() + "/" + t.ID }

// failure returns the episode of a job that failed before it started.
func (j *job) failure(outcome data.Outcome, err error) *data.Episode {
	return &data.Episode{
		Task: j.task, UID: j.uid, Sample: j.sample, Seed: j.seed,
		Outcome: outcome, Err: err.Error(), Attempts: j.attempts,
	}
}

// EpisodeSeed returns the seed of one episode's sampling. It depends only on the
// arguments, so a resumed run, or one with another concurrency, draws the same
// tokens. repeat counts earlier occurrences of the task in the step.
func EpisodeSeed(seed uint64, step int, env, task string, repeat, sample int) uint64 {
	h := engine.Mix(seed)
	for _, part := range []uint64{
		uint64(step), engine.TaskHash(env), engine.TaskHash(task), uint64(repeat), uint64(sample),
	} {
		h = engine.Mix(h ^ engine.Mix(part))
	}
	return h
}
