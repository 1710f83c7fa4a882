package cli

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/dump"
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

// playedTwice trains for four steps with the configuration text, once in one go and once resumed after two steps. It
// checks that both runs have the same episodes, that no episode exceeds the turn limit of its [[env]] table, and that
// the metrics report the number of episodes. It returns stdout, folder and metrics of the first run and the number of
// episodes by table. It calls see with each episode unless see is nil.
func playedTwice(t *testing.T, text string, turns map[string]int, see func(step int, ep *data.Episode)) (out, whole string, lines []map[string]any, drawn map[string]int) {
	t.Helper()
	run := func(dir, steps string) string {
		t.Helper()
		ts := newTestState(t, "train", "run.toml", "--quiet", "--set", "trainer.total_steps="+steps, "--set", "trainer.test_every=4")
		ts.Dir = dir
		writeFile(t, dir, "run.toml", text)
		if code := Main(ts.State); code != 0 {
			t.Fatalf("exit code %d:\n%s", code, ts.err.String())
		}
		return ts.out.String()
	}
	whole, resumed := t.TempDir(), t.TempDir()
	out = run(whole, "4")
	run(resumed, "2")
	run(resumed, "4")

	drawn = map[string]int{}
	lines = metricsOf(t, whole, "mix")
	for step := 1; step <= 4; step++ {
		name := fmt.Sprintf("runs/mix/rollouts/step_%d.jsonl", step)
		episodes, again := episodesOf(t, filepath.Join(whole, name)), episodesOf(t, filepath.Join(resumed, name))
		if len(episodes) != 8 || len(again) != 8 {
			t.Fatalf("step %d has %d and %d episodes", step, len(episodes), len(again))
		}
		here := map[string]int{}
		for i, ep := range episodes {
			table := ep.Task.Table()
			if ep.UID != again[i].UID || ep.Seed != again[i].Seed || table != again[i].Task.Table() {
				t.Errorf("step %d: %s, and resumed %s", step, ep.UID, again[i].UID)
			}
			here[table]++
			drawn[table]++
			if len(ep.Turns) > turns[table] {
				t.Errorf("an episode of %s has %d turns", table, len(ep.Turns))
			}
			if see != nil {
				see(step, ep)
			}
		}
		for table := range turns {
			if got, _ := lines[step-1]["env/"+table+"/episodes"].(float64); got != float64(here[table]) {
				t.Errorf("step %d: %v episodes of %s are reported, %d are in the file", step, got, table, here[table])
			}
		}
	}
	return out, whole, lines, drawn
}

// TestMixture checks that a run of several environments draws tasks by weight, uses the turn limit and format of each
// environment, makes the same draws after a resume, and reports metrics by environment and overall.
func TestMixture(t *testing.T) {
	out, _, lines, drawn := playedTwice(t, mixtureRun, map[string]int{"maze": 2, "wordle": 3}, nil)
	mustContain(t, "stdout", out, "maze", "wordle", "textcraft", "overall")
	if drawn["maze"] == 0 || drawn["wordle"] <= drawn["maze"] || drawn["textcraft"] != 0 {
		t.Errorf("drawn tasks: %v", drawn)
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
				t.Errorf("val/%s/%s is missing", env, name)
			}
			sum += n * x
		}
		if got, ok := last["val/overall/"+name].(float64); !ok || got < sum/4-1e-9 || got > sum/4+1e-9 {
			t.Errorf("val/overall/%s is %v, want %g", name, last["val/overall/"+name], sum/4)
		}
	}
}

// episodesOf returns the episodes of a dump.
func episodesOf(t *testing.T, path string) []*data.Episode {
	t.Helper()
	d, err := dump.Open(path)
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
