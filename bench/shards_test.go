package main

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
	"github.com/openmanus/openmanus/torch/dist/disttest"
	"github.com/openmanus/openmanus/torch/shard"
)

// TestShardJob checks that ranks of every level do the same steps and hold what the level says.
func TestShardJob(t *testing.T) {
	var list []ShardMemory
	for _, level := range shard.Levels() {
		j := ShardJob{Ranks: 2, Level: level, Width: 64, Layers: 2, Vocab: 300, Rows: 3, Tokens: 12}
		got := make([]ShardMemory, j.Ranks)
		disttest.Run(t, j.Ranks, func(th *torch.Thread, g *dist.Group) (err error) {
			got[g.Rank()], err = j.measure(t.Context(), th, g, must(shard.ParseLevel(level)))
			return err
		})
		if got[0] != got[1] {
			t.Errorf("shards of %s: the ranks report %+v and %+v", level, got[0], got[1])
		}
		list = append(list, got[0])
	}
	none := list[0]
	for i, want := range [][2]float64{{1, 1}, {1, .5}, {1, .5}, {.5, .5}} {
		m := list[i]
		near := func(got, want float64) bool { return math.Abs(got-want) < .02*want }
		if !near(m.Weights, want[0]*none.Weights) || !near(m.Moments, want[1]*none.Moments) || math.Abs(m.GradNorm-none.GradNorm) > 1e-4*none.GradNorm {
			t.Errorf("shards of %s: %+v, without shards %+v", m.Level, m, none)
		}
		if !(m.Peak > m.Weights+m.Moments && m.Seconds > 0) {
			t.Errorf("shards of %s: %+v", m.Level, m)
		}
	}
	var b strings.Builder
	list = append(list, ShardMemory{ShardJob: none.ShardJob, NotEnough: 1})
	if err := printShards(&b, list); err != nil || strings.Count(b.String(), "\n") != 9 {
		t.Errorf("error %v, table %s", err, &b)
	}
}

// TestShardJobsFit checks the sizes of the default jobs.
func TestShardJobsFit(t *testing.T) {
	jobs := shardJobs()
	c := jobs[0].config()
	if n, err := c.NumParameters(); err != nil || n < 340e6 || n > 360e6 {
		t.Errorf("the model has %d parameters (%v), want about 350 million", n, err)
	}
	need := map[int][]float64{}
	for _, j := range jobs {
		need[j.Ranks] = append(need[j.Ranks], j.need())
	}
	for ranks, list := range need {
		if !slices.IsSortedFunc(list, func(a, b float64) int { return int(b - a) }) {
			t.Errorf("%d ranks need %v bytes, want less at each level", ranks, list)
		}
	}
}
