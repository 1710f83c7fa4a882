package algo

import (
	"fmt"
	"maps"

	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/torch"
)

// write appends a line to the metrics.
func (t *Trainer) write(step int, m Metrics) error {
	line := Metrics{}
	maps.Copy(line, m)
	t.memory(line)
	if t.saving > 0 {
		line[track.TimingSave], t.saving = t.saving, 0
	}
	t.faultMetrics(line)
	if err := t.Sink.Write(step, line); err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	return nil
}

// memory says what the process holds now: a run that leaks shows it from line
// to line, and which of them grows says where to look.
func (t *Trainer) memory(m Metrics) {
	if rss := torch.RSS(); rss > 0 {
		m[track.ProcessBytes] = float64(rss)
	}
	m[track.TensorBytes] = float64(torch.LiveBytes())
	weights, optimizer := t.Actor.Bytes()
	m[track.MemoryBytes+"/weights"], m[track.MemoryBytes+"/optimizer"] = weights, optimizer
	if t.Critic != nil {
		m[track.MemoryBytes+"/critic"], m[track.MemoryBytes+"/critic_optimizer"] = t.Critic.Bytes()
	}
	if t.Ref != nil {
		m[track.MemoryBytes+"/reference"] = learner.ModelBytes(t.Ref)
	}
	if t.RewardModelBytes > 0 {
		m[track.MemoryBytes+"/reward_model"] = float64(t.RewardModelBytes)
	}
	if t.KVBytes > 0 {
		m[track.MemoryBytes+"/kv_cache"] = float64(t.KVBytes)
	}
}

// faultMetrics tell what the environments' servers did wrong since the line
// before: the sum over all lines of a run is what its clients met. Where the
// run has several environments each has its own numbers too.
func (t *Trainer) faultMetrics(m Metrics) {
	var met int64
	for _, e := range t.Envs {
		if e.Train.Pool == nil {
			continue
		}
		now := e.Train.Pool.Counts()
		since := now.Since(t.counted[e.Name])
		t.counted[e.Name] = now
		add := func(name string, n int64) {
			if n == 0 {
				return
			}
			m[track.Servers+name] += float64(n)
			if len(t.Envs) > 1 {
				m[track.Servers+e.Name+"/"+name] = float64(n)
			}
		}
		for seen, n := range since.Faults {
			add("faults/"+seen, n)
		}
		add("requests", since.Exchanges)
		add("instances_created", since.Instances)
		add("quarantines", since.Quarantines)
		met += since.AllFaults()
	}
	m[track.ServerFaults] = float64(met)
}
