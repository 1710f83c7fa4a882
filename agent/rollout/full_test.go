package rollout

import (
	"context"
	"testing"
	"time"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/pool"
)

// TestWaveOnFewerServers checks that a wave is smaller if a server is quarantined. A wave acquires
// its leases before it plays, so it must not wait for leases that its own episodes hold.
func TestWaveOnFewerServers(t *testing.T) {
	s := newStage(t, true)
	spec := s.world.spec()
	create := spec.New
	spec.New = func(ctx context.Context, o env.Options) (env.Client, error) {
		if o.BaseURL == "http://127.0.0.1:2" {
			return nil, &env.Error{Kind: env.KindServer, Op: "create", URL: o.BaseURL, Status: 500}
		}
		return create(ctx, o)
	}
	pool, err := pool.New(spec, []string{"http://127.0.0.1:1", "http://127.0.0.1:2"}, pool.Options{MaxPerServer: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close(context.Background())
	e := s.envs["fake"]
	e.Pool = pool
	s.envs["fake"] = e
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	eps, stats, err := RunEpisodes(ctx, s.envs, tasks(7), Options{GroupSize: 1, Concurrency: 4, Deterministic: true})
	if err != nil || pool.MaxLeases() != 4 || s.world.most > 2 || stats.Failed > 0 || stats.Retries > 0 {
		t.Errorf("error %v; MaxLeases %d, want 4; %d instances in use at once, want at most 2; stats %+v", err, pool.MaxLeases(), s.world.most, stats)
	}
	for _, ep := range eps {
		if !ep.Outcome.Trainable() || ep.Outcome == data.Cancelled {
			t.Errorf("%s: %s %s", ep.Task.ID, ep.Outcome, ep.Err)
		}
	}
}
