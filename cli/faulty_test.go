package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/agent/eval"
	"github.com/openmanus/openmanus/agent/openai/openaitest"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/env/fault"
	"github.com/openmanus/openmanus/env/proxy"
)

// TestTrainThroughFaults trains on a server with every kind of fault except hang. It checks that the run finishes, that
// its counts equal the injected faults, and that no token of a dropped episode enters an update. With the default number
// of replays no episode is dropped.
func TestTrainThroughFaults(t *testing.T) {
	for name, c := range map[string]struct {
		sets  []string
		drops bool
	}{
		"lost episodes are dropped": {[]string{"agent.episode_retries=0", "agent.episode_replays=0", "trainer.test_every=0", "trainer.val_before_train=false", "env.maze.val_tasks=[]"}, true},
		"and replayed":              {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := builtin.Serve(t.Context(), "maze", "127.0.0.1:0", builtin.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close(context.Background())
			plan, err := fault.Parse("500:0.1,truncate:0.05,reset:0.05,slow:1ms:0.05,duplicate:0.1,seed=4")
			if err != nil {
				t.Fatal(err)
			}
			p, err := proxy.Serve(t.Context(), "127.0.0.1:0", proxy.Options{Upstream: h.URL, Plan: plan})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close(context.Background())
			args := []string{"train", "run.toml", "--quiet", "--set", "env.maze.servers=" + p.URL, "--set", "trainer.total_steps=2", "--set", "sft.epochs=4", "--set", "model.fresh.walks=24", "--set", "model.fresh.walk_turns=6",
				"--set", "rollout.group_size=8", "--set", "rollout.deterministic=false"}
			for _, set := range c.sets {
				args = append(args, "--set", set)
			}
			ts := newTestState(t, args...)
			writeFile(t, ts.Dir, "run.toml", tinyRun)
			if code := Main(ts.State); code != 0 {
				t.Fatalf("exit code %d:\n%s", code, ts.err.String())
			}
			mustContain(t, "run.log", string(read(t, ts.Dir, "runs/tiny/run.log")), "cut walks short")

			want, got := map[string]float64{}, map[string]float64{}
			for kind, n := range p.Counts().Faults {
				want["servers/faults/"+proxy.SeenAs(kind)] = float64(n)
			}
			dropped := 0.0
			for _, line := range allMetrics(t, filepath.Join(ts.Dir, "runs", "tiny")) {
				for name, x := range line {
					if strings.HasPrefix(name, "servers/faults/") {
						got[name] += x
					}
				}
				step, given := line["step"], line["rollout/dropped"]
				if step == 0 || line["rollout/turns"] == 0 {
					continue
				}
				dropped += given
				lost, tokens := 0, 0
				for _, ep := range episodesOf(t, filepath.Join(ts.Dir, "runs", "tiny", "rollouts", fmt.Sprintf("step_%g.jsonl", step))) {
					if !ep.Outcome.Trainable() {
						lost++
						continue
					}
					tokens += ep.SampledTokens()
				}
				if float64(lost) != given || float64(tokens) != line["state_tokens/total"] {
					t.Errorf("step %g: %d episodes were lost, but %g are reported; other episodes have %d sampled tokens, but %g entered the update",
						step, lost, given, tokens, line["state_tokens/total"])
				}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("injected (-) and counted (+): %s", d)
			}
			if (dropped > 0) != c.drops {
				t.Errorf("%g episodes were dropped", dropped)
			}
		})
	}
}

// TestPlayThroughFaults checks that eval and rollout report the faults of servers.
func TestPlayThroughFaults(t *testing.T) {
	player := openaitest.Serve(t, walker)
	h, err := builtin.Serve(t.Context(), "maze", "127.0.0.1:0", builtin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())
	dir := t.TempDir()
	// play runs a command through a new proxy and returns the injected faults.
	play := func(t *testing.T, faults string, args ...string) (stdout string, injected map[string]int64) {
		t.Helper()
		plan, err := fault.Parse(faults)
		if err != nil {
			t.Fatal(err)
		}
		p, err := proxy.Serve(t.Context(), "127.0.0.1:0", proxy.Options{Upstream: h.URL, Plan: plan})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close(context.Background())
		code, out, stderr := inProcess(t, dir, append(args, "--base-url", player.URL, "--api-model", "m", "--env", "maze", "--tasks", "8-18", "--max-turns", "4", "--server", p.URL)...)
		if code != 0 {
			t.Fatalf("%q: exit code %d\n%s", args, code, stderr)
		}
		injected = map[string]int64{}
		for kind, n := range p.Counts().Faults {
			injected[proxy.SeenAs(kind)] = int64(n)
		}
		return out, injected
	}
	const some = "500:0.15,reset:0.15,seed=4" // at these rates some steps fail, whatever the order of requests
	for _, args := range [][]string{{"eval", "--max-lost", "0.9"}, {"rollout", "--max-lost", "0.9", "--dump", "d.jsonl", "--force"}} {
		t.Run(args[0], func(t *testing.T) {
			out, injected := play(t, some, append(args, "--json")...)
			var got eval.Infrastructure
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			if d := cmp.Diff(injected, got.Servers.Faults); d != "" || len(injected) == 0 {
				t.Errorf("injected (-) and reported (+): %s", d)
			}
			if got.Servers.Instances == 0 || got.Servers.Exchanges == 0 || got.Retries+got.Replays == 0 {
				t.Errorf("got %+v", got)
			}
			out, injected = play(t, some, args...)
			lines := 0
			for line := range strings.Lines(out) {
				if strings.HasPrefix(line, "infrastructure: ") && strings.Contains(line, fmt.Sprintf("http_500 %d", injected["http_500"])) {
					lines++
				}
			}
			if lines != 1 {
				t.Errorf("%d lines have %v in\n%s", lines, injected, out)
			}
			if out, _ = play(t, "", args...); strings.Contains(out, "infrastructure") || !strings.Contains(out, ": 11 ") {
				t.Errorf("the command reports faults, but the proxy injected none:\n%s", out)
			}
		})
	}
}

// allMetrics returns all lines of a run's metrics.
func allMetrics(t *testing.T, run string) []map[string]float64 {
	t.Helper()
	var lines []map[string]float64
	err := track.Read(filepath.Join(run, "metrics.jsonl"), func(l track.Line) error {
		line := maps.Clone(l.Metrics)
		line["step"] = float64(l.Step)
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}
