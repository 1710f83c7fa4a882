package algo

import (
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/env/pool"
)

// faultMetrics tell what the environments' servers did wrong since the line
// before: the sum over all lines of a run is what its clients met. Where the
// run has several environments each has its own numbers too.
func (t *Trainer) faultMetrics(m Metrics) {
	var met int64
	for _, e := range t.envs {
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
			if len(t.envs) > 1 {
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

// counts are a pool's, by environment.
type counts = map[string]pool.Counts
