package algo

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/ranks"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/env/pool"
	"github.com/openmanus/openmanus/torch"
)

// write appends a line to the metrics file: m, the memory in use, and the faults of the servers.
func (t *Trainer) write(ctx context.Context, phase track.Phase, step int, m Metrics) error {
	counts, err := t.newCounts(ctx)
	if err != nil {
		return err
	}
	return t.Ranks.OnFirst(ctx, func() error {
		line := Metrics{}
		maps.Copy(line, m)
		t.memory(line)
		if err := t.deviceTime(ctx, line); err != nil {
			return err
		}
		if t.saving > 0 {
			line[track.TimingSave], t.saving = t.saving, 0
		}
		t.faultMetrics(line, counts)
		if err := t.Sink.Write(track.Line{Phase: phase, Step: step, Time: time.Now(), Metrics: line}); err != nil {
			return fmt.Errorf("write metrics: %w", err)
		}
		return nil
	})
}

// newCounts returns the increase of the counts of each environment's pool since the last call, on each rank.
func (t *Trainer) newCounts(ctx context.Context) ([]map[string]pool.Counts, error) {
	since := map[string]pool.Counts{}
	for _, e := range t.Envs {
		if e.Train.Pool == nil {
			continue
		}
		now := e.Train.Pool.Counts()
		since[e.Name] = now.Since(t.counted[e.Name])
		t.counted[e.Name] = now
	}
	if len(since) == 0 && t.Ranks.Workers() == 0 { // on all ranks
		return nil, nil
	}
	return ranks.Gather(ctx, t.Ranks, func() (map[string]pool.Counts, error) { return since, nil })
}

// deviceTime reports the time that a GPU took.
func (t *Trainer) deviceTime(ctx context.Context, m Metrics) error {
	thread := t.Actor.Master().Thread()
	if thread.Device().IsCPU() {
		return nil
	}
	seconds, err := thread.DeviceSeconds(ctx)
	if err != nil {
		return fmt.Errorf("read the time of the GPU: %w", err)
	}
	m[track.DeviceTime] = seconds
	return nil
}

// memory reports the memory of the process and of its parts, so that a leak shows as
// growth from line to line.
func (t *Trainer) memory(m Metrics) {
	if rss := torch.RSS(); rss > 0 {
		m[track.ProcessBytes] = float64(rss)
	}
	m[track.TensorBytes] = float64(torch.LiveBytes())
	if d := t.Actor.Master().Thread().Device(); !d.IsCPU() {
		if used, err := d.Memory(); err == nil { // asked before, for the size of the KV cache
			m[track.DeviceBytes], m[track.DevicePeakBytes] = float64(used.Allocated), float64(used.Peak)
		}
	}
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

// faultMetrics reports the faults of the environments' servers since the previous line,
// summed over all environments and, if there are several, for each environment.
func (t *Trainer) faultMetrics(m Metrics, counts []map[string]pool.Counts) {
	var faults int64
	for _, e := range t.Envs {
		add := func(name string, n int64) {
			if n == 0 {
				return
			}
			m[track.Servers+name] += float64(n)
			if len(t.Envs) > 1 {
				m[track.Servers+e.Name+"/"+name] += float64(n)
			}
		}
		for _, ofRank := range counts {
			since := ofRank[e.Name]
			for kind, n := range since.Faults {
				add("faults/"+kind, n)
			}
			add("requests", since.Exchanges)
			add("instances_created", since.Instances)
			add("quarantines", since.Quarantines)
			faults += since.AllFaults()
		}
	}
	m[track.ServerFaults] = float64(faults)
}
