package docs

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/agent/text"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/env/pool"
)

// howto-engine.md shows the code between the howto marks.

// howto:speaker

// dice is an agent that moves at random, a baseline for models.
type dice struct{}

func (dice) Reply(_ context.Context, a text.Request) (text.Reply, error) {
	moves := []string{"move up", "move down", "move left", "move right"}
	draw := engine.TaskHash(fmt.Sprint(a.Key.Seed, "/", a.Key.Task, "/", a.Key.Sample, "/", a.Params.Turn))
	return text.Reply{Text: "Action: " + moves[draw>>32%4]}, nil
}

// howto:end

// howto:play
func playDice(ctx context.Context, tasks []data.Task) ([]*data.Episode, error) {
	server, err := builtin.Serve(ctx, "maze", "127.0.0.1:0", builtin.Options{})
	if err != nil {
		return nil, err
	}
	defer server.Close(ctx)
	spec, err := env.Lookup("maze")
	if err != nil {
		return nil, err
	}
	pool, err := pool.New(spec, []string{server.URL}, pool.Options{})
	if err != nil {
		return nil, err
	}
	defer pool.Close(ctx)
	format, err := agent.Formats.Lookup("react")
	if err != nil {
		return nil, err
	}
	setup := agent.Setup{
		Engine:   &text.Engine{Speaker: dice{}}, // the engine of the example
		Renderer: text.Renderer{},               // conversations as text
		NoIDs:    true,                          // episodes without token ids
		Format:   format,
		Spec:     spec,
		Options:  agent.Options{MaxTurns: 6, MaxNewTokens: 100, MaxContext: 1 << 20, Temperature: 1},
	}
	episodes, _, err := rollout.RunEpisodes(ctx, map[string]rollout.Env{"maze": {Pool: pool, Setup: setup}}, tasks,
		rollout.Options{GroupSize: 4, Concurrency: 8, Seed: 1})
	return episodes, err
}

// howto:end

func TestHowToAddAnEngine(t *testing.T) {
	tasks := []data.Task{{ID: "maze_17", Env: "maze", Index: 17}, {ID: "maze_18", Env: "maze", Index: 18}}
	var said [2][]string
	for i := range said {
		episodes, err := playDice(t.Context(), tasks)
		if err != nil {
			t.Fatal(err)
		}
		if len(episodes) != 8 {
			t.Fatalf("%d episodes, want 8", len(episodes))
		}
		for _, ep := range episodes {
			if !ep.Outcome.Trainable() || len(ep.Turns) == 0 || len(ep.Tokens) > 0 {
				t.Errorf("%s: got outcome %s %s, %d turns and %d ids, want a trainable outcome, turns and no ids", ep.Task.ID, ep.Outcome, ep.Err, len(ep.Turns), len(ep.Tokens))
			}
			for _, turn := range ep.Turns {
				said[i] = append(said[i], turn.Action)
			}
		}
	}
	env.CloseIdle()
	if a, b := strings.Join(said[0], ";"), strings.Join(said[1], ";"); a != b {
		t.Errorf("the same seed gives different actions\n%s\nand\n%s", a, b)
	}
	for _, move := range []string{"move up", "move down", "move left", "move right"} {
		if !strings.Contains(strings.Join(said[0], ";"), move) {
			t.Errorf("no turn has the action %q", move)
		}
	}
}

// TestHowToShowsThisCode checks that the page shows the code of this file.
func TestHowToShowsThisCode(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	page, code := read("howto-engine.md"), read("howto_engine_test.go")
	parts := regexp.MustCompile(`(?s)// howto:[a-z]+\n(.*?)\n// howto:end\n`).FindAllStringSubmatch(code, -1)
	if len(parts) != 2 {
		t.Fatalf("got %d marked parts, want 2", len(parts))
	}
	for _, part := range parts {
		want := "```go\n" + strings.TrimSpace(part[1]) + "\n```"
		if !strings.Contains(page, want) {
			t.Errorf("howto-engine.md lacks this code:\n%s", want)
		}
	}
}
