package run

import (
	"runtime"
	"testing"

	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/ranks"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
	"github.com/openmanus/openmanus/torch/dist/disttest"
)

// TestSharedProcessors checks when the ranks of an update use the processors of each other.
func TestSharedProcessors(t *testing.T) {
	for _, c := range []struct {
		name      string
		variables map[string]string
		local     int // processes on this machine, of 2
		async     int
		want      int
	}{
		{name: "all on this machine", local: 2, want: runtime.NumCPU()},
		{name: "on two machines", local: 1},
		{name: "on unknown machines", local: 0},
		{name: "threads are set", local: 2, variables: map[string]string{"OMP_NUM_THREADS": "1"}},
		{name: "processors are set by Slurm", local: 2, variables: map[string]string{"SLURM_CPUS_PER_TASK": "1"}},
		{name: "episodes are played during updates", local: 2, async: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			disttest.Run(t, 2, func(_ *torch.Thread, g *dist.Group) error {
				at := dist.Env{Rank: g.Rank(), Size: 2, LocalRank: min(g.Rank(), max(c.local-1, 0)), LocalSize: c.local}
				r, err := ranks.New(t.Context(), g, at, func(error) errext.ExitCode { return errext.Native })
				if err != nil {
					return err
				}
				var cfg configs.Config
				cfg.Trainer.AsyncSteps = c.async
				tr := &training{host: &Host{Ranks: r, Getenv: func(name string) string { return c.variables[name] }}, cfg: cfg}
				var m learner.MicroBatching
				if tr.onRanks(&m); m.Group != g || m.CPUs != c.want {
					t.Errorf("rank %d shares %d processors, want %d", g.Rank(), m.CPUs, c.want)
				}
				return r.Close(nil)
			})
		})
	}
}
