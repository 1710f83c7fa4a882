package algo

import (
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
)

// Overall takes the place of an environment's name in the names of metrics over all
// environments.
const Overall = track.Overall

// newOrder makes the order of the tasks of all environments.
func newOrder(envs []Env, o Play) (*data.Mixture, error) {
	var shares []data.Share
	for _, e := range envs {
		shares = append(shares, data.Share{Name: e.Name, Tasks: len(e.TrainTasks), Weight: e.Weight})
	}
	return data.NewMixture(shares, o.Shuffle, o.OrderSeed)
}

// epoch returns the smallest number of finished passes over the tasks of an
// environment.
func epoch(s *rundir.State, envs []Env) int {
	if s.Mixture == nil {
		return s.Order.Epoch
	}
	least := -1
	for i, o := range s.Mixture.Orders {
		if envs[i].Weight > 0 && (least < 0 || o.Epoch < least) {
			least = o.Epoch
		}
	}
	return least
}

// draw returns the next k tasks.
func (p *player) draw(k int) []data.Task {
	tasks := make([]data.Task, 0, k)
	for _, pick := range p.order.Next(k) {
		tasks = append(tasks, p.Envs[pick.Source].TrainTasks[pick.Task])
	}
	return tasks
}

// mixtureMetrics reports the results of each environment in a step, if the run has
// several environments.
func mixtureMetrics(m Metrics, envs []Env, episodes []*data.Episode) {
	if len(envs) < 2 {
		return
	}
	for _, e := range envs {
		var ofEnv []*data.Episode
		for _, ep := range episodes {
			if ep.Task.Table() == e.Name {
				ofEnv = append(ofEnv, ep)
			}
		}
		s := summarize(ofEnv)
		s.write(m, track.Env+e.Name+"/")
		m[track.Env+e.Name+"/dropped"] = float64(len(ofEnv) - s.episodes - count(ofEnv, data.OverlongPrompt))
	}
}

// count returns the number of episodes with the outcome.
func count(episodes []*data.Episode, outcome data.Outcome) (n int) {
	for _, ep := range episodes {
		if ep.Outcome == outcome {
			n++
		}
	}
	return n
}

// summary holds sums over the trainable episodes in a list.
type summary struct {
	episodes, solved, turns int
	score                   float64
}

func summarize(episodes []*data.Episode) (s summary) {
	for _, ep := range episodes {
		if !ep.Outcome.Trainable() {
			continue
		}
		s.episodes++
		s.score += ep.Reward
		s.turns += len(ep.Turns)
		if ep.Outcome == data.Success {
			s.solved++
		}
	}
	return s
}

func (s summary) write(m Metrics, prefix string) {
	n := float64(s.episodes)
	m[prefix+"episodes"] = n
	if n > 0 {
		m[prefix+"success_rate"] = float64(s.solved) / n
		m[prefix+"mean_score"] = s.score / n
		m[prefix+"mean_turns"] = float64(s.turns) / n
	}
}
