package algo

import (
	"fmt"
	"maps"

	"github.com/openmanus/openmanus/algo/curriculum"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
)

// Course is the curriculum of a run. The zero Course plays all tasks in order with the
// environments' limits on turns.
type Course struct {
	Stages  curriculum.Stages  // limits on turns
	Sampler curriculum.Options // selection of tasks
}

// course numbers the training tasks for a Sampler. Equal tasks share one number. A nil
// course means that tasks are played in their order.
type course struct {
	tasks   []data.Task
	number  map[taskKey]int
	sampler *curriculum.Sampler
}

type taskKey struct {
	table, id string
	index     int
}

func keyOf(t data.Task) taskKey { return taskKey{t.Table(), t.ID, t.Index} }

func newCourse(envs []Env, o curriculum.Options) *course {
	if !o.Used() {
		return nil
	}
	c := &course{number: map[taskKey]int{}}
	for _, e := range envs {
		if e.Weight == 0 {
			continue // only validations play this environment
		}
		for _, task := range e.TrainTasks {
			if _, seen := c.number[keyOf(task)]; !seen {
				c.number[keyOf(task)] = len(c.tasks)
				c.tasks = append(c.tasks, task)
			}
		}
	}
	c.sampler = curriculum.New(len(c.tasks), o)
	return c
}

// restore continues from a checkpoint's state. It does nothing if c or st is nil.
func (c *course) restore(st *curriculum.State) error {
	if c == nil || st == nil {
		return nil
	}
	return c.sampler.Restore(*st)
}

// choose returns the next k tasks of a step.
func (p *player) choose(step, k int) []data.Task {
	if p.course == nil {
		return p.draw(k)
	}
	out := make([]data.Task, 0, k)
	next := func() int { return p.course.number[keyOf(p.draw(1)[0])] }
	for _, i := range p.course.sampler.Draw(step, k, next) {
		out = append(out, p.course.tasks[i])
	}
	return out
}

// learnCourse reports the results of a finished step to the curriculum.
func (p *player) learnCourse(step int, episodes []*data.Episode, m Metrics) error {
	if len(p.o.Course.Stages) > 0 {
		turns := 0
		for _, e := range p.Envs {
			turns = max(turns, p.o.Course.Stages.Turns(step, e.Train.Setup.Options.MaxTurns))
		}
		m[track.MaxTurns] = float64(turns)
	}
	if p.course == nil {
		return nil
	}
	played, solved := map[int]int{}, map[int]int{}
	for _, ep := range episodes {
		i, known := p.course.number[keyOf(ep.Task)]
		if !known {
			return fmt.Errorf("an episode plays task %s, which is not a training task of the run", ep.Task.ID)
		}
		if ep.Outcome.Trainable() {
			played[i]++
		}
		if ep.Outcome == data.Success {
			solved[i]++
		}
	}
	for i := range p.course.tasks { // a fixed order: the order of a map would vary
		p.course.sampler.Report(step, i, played[i], solved[i])
	}
	maps.Copy(m, p.course.sampler.Metrics())
	st := p.course.sampler.State()
	p.state.Curriculum = &st
	return nil
}
