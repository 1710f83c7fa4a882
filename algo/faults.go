package algo

import (
	"maps"
	"slices"

	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/env"
)

// faultMetrics tell what the environments' servers did wrong since the line
// before: the sum over all lines of a run is what its clients met. Where the
// run has several environments each has its own numbers too.
func (t *Trainer) faultMetrics(m Metrics) {
	met := 0.0
	for _, e := range t.envs {
		if e.Train.Pool == nil {
			continue
		}
		now, before := e.Train.Pool.Counts(), t.counted[e.Name]
		t.counted[e.Name] = now
		add := func(name string, now, before int64) {
			if now == before {
				return
			}
			m[track.Servers+name] += float64(now - before)
			if len(t.envs) > 1 {
				m[track.Servers+e.Name+"/"+name] = float64(now - before)
			}
		}
		for _, seen := range slices.Sorted(maps.Keys(now.Faults)) {
			add("faults/"+seen, now.Faults[seen], before.Faults[seen])
			met += float64(now.Faults[seen] - before.Faults[seen])
		}
		add("requests", now.Exchanges, before.Exchanges)
		add("instances_created", now.Instances, before.Instances)
		add("quarantines", now.Quarantines, before.Quarantines)
	}
	m[track.ServerFaults] = met
}

// counts are a pool's, by environment.
type counts = map[string]env.Counts
