package cli

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/openmanus/openmanus/data"
)

const mixtureRun = `
[model]
device = "cpu"
compute_dtype = "float32"
[model.fresh]
layers = 1
hidden_size = 16
intermediate_size = 32
heads = 2
kv_heads = 1
[[env]]
name = "maze"
tasks = "1-4"
val_tasks = "16"
max_turns = 2
format = "react"
instruction = "Walk."
[[env]]
name = "wordle"
tasks = "0-2"
val_tasks = "3-4"
weight = 2.5
max_turns = 3
format = "action_tags"
instruction = "Guess."
[[env]]
name = "textcraft"
val_tasks = "0"
weight = 0
max_turns = 1
instruction = "Craft."
[data]
train_batch_size = 4
max_prompt_tokens = 1500
[rollout]
group_size = 2
max_new_tokens = 4
max_context_tokens = 2048
max_sequences = 8
deterministic = true
[actor]
mini_batch_size = 0
[trainer]
experiment = "mix"
total_steps = 4
save_every = 2
test_every = 4
val_before_train = false
`

// A run of several environments draws by weight, with each its own turns and
// format, draws the same when it is resumed, and reports each of them and all
// together.
func TestMixture(t *testing.T) {
	whole, resumed := t.TempDir(), t.TempDir()
	run := func(dir, steps string) *testState {
		t.Helper()
		ts := newTestState(t, "train", "run.toml", "--quiet", "--set", "trainer.total_steps="+steps, "--set", "trainer.test_every=4")
		ts.Dir = dir
		if code := Main(ts.State); code != 0 {
			t.Fatalf("exit code %d:\n%s", code, ts.err.String())
		}
		return ts
	}
	writeFile(t, whole, "run.toml", mixtureRun)
	writeFile(t, resumed, "run.toml", mixtureRun)
	ts := run(whole, "4")
	mustContain(t, "stdout", ts.out.String(), "maze", "wordle", "textcraft", "overall")
	run(resumed, "2")
	run(resumed, "4")

	turns := map[string]int{"maze": 2, "wordle": 3}
	drawn := map[string]int{}
	lines := metricsOf(t, whole, "mix")
	for step := 1; step <= 4; step++ {
		name := fmt.Sprintf("runs/mix/rollouts/step_%d.jsonl", step)
		episodes, again := episodesOf(t, filepath.Join(whole, name)), episodesOf(t, filepath.Join(resumed, name))
		if len(episodes) != 8 || len(again) != 8 {
			t.Fatalf("step %d has %d and %d episodes", step, len(episodes), len(again))
		}
		here := map[string]int{}
		for i, ep := range episodes {
			if ep.UID != again[i].UID || ep.Seed != again[i].Seed {
				t.Errorf("step %d: %s, and resumed %s", step, ep.UID, again[i].UID)
			}
			here[ep.Task.Env]++
			drawn[ep.Task.Env]++
			if len(ep.Turns) > turns[ep.Task.Env] {
				t.Errorf("%s takes %d turns", ep.Task.Env, len(ep.Turns))
			}
		}
		for env, n := range here {
			if got := lines[step-1]["env/"+env+"/episodes"]; got != float64(n) {
				t.Errorf("step %d: %v episodes of %s are reported, %d are in the file", step, got, env, n)
			}
		}
	}
	if drawn["maze"] == 0 || drawn["wordle"] <= drawn["maze"] || drawn["textcraft"] != 0 {
		t.Errorf("drawn: %v", drawn)
	}
	last := lines[3]
	for name, want := range map[string]float64{
		"val/maze/episodes": 1, "val/wordle/episodes": 2, "val/textcraft/episodes": 1, "val/overall/episodes": 4,
	} {
		if last[name] != want {
			t.Errorf("%s is %v, want %g", name, last[name], want)
		}
	}
	for _, name := range []string{"success_rate", "mean_score", "mean_turns"} {
		sum := 0.0
		for env, n := range map[string]float64{"maze": 1, "wordle": 2, "textcraft": 1} {
			x, ok := last["val/"+env+"/"+name].(float64)
			if !ok {
				t.Errorf("there is no val/%s/%s", env, name)
			}
			sum += n * x
		}
		if got, ok := last["val/overall/"+name].(float64); !ok || got < sum/4-1e-9 || got > sum/4+1e-9 {
			t.Errorf("val/overall/%s is %v, want %g", name, last["val/overall/"+name], sum/4)
		}
	}
}

// episodesOf reads a dump.
func episodesOf(t *testing.T, path string) []*data.Episode {
	t.Helper()
	d, err := data.OpenDump(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var out []*data.Episode
	for {
		ep, err := d.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, ep)
	}
}
