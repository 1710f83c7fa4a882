package rollout

import (
	"context"
	"net/http"
	"testing"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/env/fault"
	"github.com/openmanus/openmanus/env/pool"
)

// expert is an engine that replies with the next move of a shortest path of the
// session's task.
type expert struct{ games map[string]int }

func (e *expert) Open(_ context.Context, o engine.SessionOptions) (*engine.Session, error) {
	return engine.NewSession(o, nil), nil
}

func (e *expert) Generate(_ context.Context, s *engine.Session, _ []int32, p engine.Params) (engine.Reply, error) {
	move := builtin.MazeExpert(e.games[s.Options().Key.Task])[p.Turn]
	r := engine.Reply{Stop: engine.StopLength}
	for _, b := range []byte("Thought:\non\n\nAction:\n" + move) {
		r.IDs = append(r.IDs, int32(b)-'a')
		r.LogProbs = append(r.LogProbs, -1)
	}
	return r, nil
}

func (e *expert) Close(*engine.Session) {}

// TestMazeOverHTTP checks that over real HTTP the expert solves the maze from every start, even if
// the server drops requests, truncates replies and resets connections: these faults must not change
// the model's results.
func TestMazeOverHTTP(t *testing.T) {
	const faults = "500:0.03,truncate:0.02,reset:0.02,seed=3"
	for name, c := range map[string]struct {
		faults            string
		attempts, replays int
	}{
		"healthy":  {"", 1, 0},
		"faulty":   {faults, 50, 0},
		"replayed": {faults, 1, 100},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := fault.Parse(c.faults)
			if err != nil {
				t.Fatal(err)
			}
			server, err := builtin.Serve(t.Context(), "maze", "127.0.0.1:0", builtin.Options{Faults: f})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := server.Close(context.Background()); err != nil {
					t.Error(err)
				}
			}()
			transport := &http.Transport{MaxIdleConnsPerHost: 8}
			defer transport.CloseIdleConnections()
			spec, err := env.Lookup("maze")
			if err != nil {
				t.Fatal(err)
			}
			pool, err := pool.New(spec, []string{server.URL}, pool.Options{Client: env.Options{Client: &http.Client{Transport: transport}}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := pool.Close(context.Background()); err != nil {
					t.Error(err)
				}
			}()
			format, err := agent.Formats.Lookup("react")
			if err != nil {
				t.Fatal(err)
			}
			e := &expert{games: map[string]int{}}
			var tasks []data.Task
			for game := range 25 {
				task := data.Task{ID: "maze_" + string(rune('a'+game)), Env: "maze", Index: game}
				e.games[task.ID] = game
				tasks = append(tasks, task)
			}
			envs := map[string]Env{"maze": {Pool: pool, Setup: agent.Setup{
				Engine: e, Renderer: fakeRenderer{}, Format: format, Spec: spec,
				Options: agent.Options{MaxTurns: 60, MaxNewTokens: 50, MaxContext: 1 << 15, Temperature: 1},
			}}}
			eps, stats, err := RunEpisodes(t.Context(), envs, tasks, Options{GroupSize: 2, Concurrency: 8, Attempts: c.attempts, Replays: c.replays})
			if err != nil {
				t.Fatal(err)
			}
			for _, ep := range eps {
				if ep.Attempts > 1 && c.attempts == 1 {
					t.Errorf("game %d took %d attempts, want 1", ep.Task.Index, ep.Attempts)
				}
				if want := len(builtin.MazeExpert(ep.Task.Index)); ep.Outcome != data.Success || len(ep.Turns) != want {
					t.Errorf("game %d: %s after %d turns, want success after %d; %s", ep.Task.Index, ep.Outcome, len(ep.Turns), want, ep.Err)
				}
			}
			if (stats.Retries > 0) != (name == "faulty") || (stats.Replays > 0) != (name == "replayed") {
				t.Errorf("%d retries and %d replays in case %s; want retries only in case faulty, replays only in case replayed", stats.Retries, stats.Replays, name)
			}
		})
	}
}
