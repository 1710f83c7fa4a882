package rollout

import (
	"fmt"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/data"
)

// job is one episode to be played.
type job struct {
	slot     int // index of the episode in the result
	task     data.Task
	uid      string
	sample   int
	seed     uint64
	attempts int // number of attempts so far
	moves    int // number of attempts that ended because the group plays on another server
	group    *group
	// failedResets counts the instances in a row that failed to reset the task.
	failedResets int
	resets       *resets
}

// jobsOf lists the episodes by task, with the group of each drawn task and the resets of
// each different task. A task that is drawn twice forms two groups with different seeds.
func jobsOf(tasks []data.Task, envs map[string]Env, o Options) (jobs []*job, groups []*group, all []*resets) {
	byTask := map[string]*resets{}
	uids, repeats := groupIDs(tasks, o)
	for i, task := range tasks {
		if o.Deal.Of > 1 && i%o.Deal.Of != o.Deal.Index {
			continue
		}
		name, uid, repeat := taskName(task), uids[i], repeats[i]
		if byTask[name] == nil {
			byTask[name] = &resets{task: task}
			all = append(all, byTask[name])
		}
		g := &group{deterministic: envs[task.Table()].Setup.Spec.Deterministic}
		if s, ok := o.Starts[uid]; ok { // an earlier rollout has played a part of the group
			g.start, g.members = s, 1
		}
		groups = append(groups, g)
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
				group:  g,
				resets: byTask[name],
			})
		}
	}
	return jobs, groups, all
}

// GroupIDs returns Episode.UID of the group of each task.
func GroupIDs(tasks []data.Task, o Options) []string {
	uids, _ := groupIDs(tasks, o)
	return uids
}

// groupIDs also returns how often each task was drawn before in the step.
func groupIDs(tasks []data.Task, o Options) (uids []string, repeats []int) {
	seen := map[string]int{}
	for _, task := range o.Earlier {
		seen[taskName(task)]++
	}
	for _, task := range tasks {
		name := taskName(task)
		uid := fmt.Sprintf("%d/%s", o.Step, name)
		if n := seen[name]; n > 0 {
			uid += fmt.Sprintf("#%d", n+1)
		}
		uids, repeats = append(uids, uid), append(repeats, seen[name])
		seen[name]++
	}
	return uids, repeats
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
