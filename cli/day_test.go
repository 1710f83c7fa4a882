package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/table"
	"github.com/openmanus/openmanus/internal/errext"
)

var (
	monday = time.Date(2026, time.March, 2, 23, 59, 0, 0, time.UTC)
	later  = monday.AddDate(0, 0, 9)
)

// datedModel creates a tiny model in dir whose chat template writes the date.
func datedModel(t *testing.T, dir string) {
	t.Helper()
	tiny := tinyModel(t)
	c, err := tokenizer.LoadConfig(tiny)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, tiny, "chat_template.jinja", "{{ strftime_now('%d %b %Y') }}"+c.ChatTemplate)
	link(t, tiny, dir, "m")
}

// onDay runs the program with its clock set to the given day, and returns stdout.
func onDay(t *testing.T, day time.Time, dir string, args ...string) string {
	t.Helper()
	ts := newTestState(t, args...)
	ts.Dir, ts.clock = dir, day
	if code := Main(ts.State); code != 0 {
		t.Fatalf("%q: exit code %d\n%s", args, code, ts.err)
	}
	return ts.out.String()
}

// TestDumpOfAnotherDay checks that a dump is continued and replayed with the date in its prompts.
func TestDumpOfAnotherDay(t *testing.T) {
	dir := t.TempDir()
	datedModel(t, dir)
	path := filepath.Join(dir, "d.jsonl")
	onDay(t, monday, dir, rolloutArgs("d.jsonl", "--deterministic")...)
	var episodes []*data.Episode
	src, err := table.ReadSource(t.Context(), path, func(e *table.Entry) error {
		episodes = append(episodes, e.Episode)
		return nil
	})
	if err != nil || src.Header.Options["day"] != "2026-03-02" {
		t.Fatalf("%v, %v", src.Header.Options, err)
	}

	write(t, path, src.Header, episodes[:len(episodes)-2])
	onDay(t, later, dir, rolloutArgs("d.jsonl", "--deterministic", "--continue")...)
	for i, e := range readDump(t, path) {
		same := slices.IndexFunc(episodes, func(o *data.Episode) bool { return o.UID == e.UID && o.Sample == e.Sample })
		if !slices.Equal(e.Tokens, episodes[same].Tokens) {
			t.Errorf("the tokens of episode %d of the continued dump differ", i)
		}
	}

	var r run.ReplayReport
	if err := json.Unmarshal([]byte(onDay(t, later, dir, "replay", "--json", "d.jsonl")), &r); err != nil || r.Replayed != 12 || r.MaxGap != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	src.Header.Options["day"] = "2026-03-11"
	write(t, path, src.Header, episodes)
	if r := replayJSON(t, dir, errext.Check, "d.jsonl"); r.Differ != 12 {
		t.Errorf("with prompts of another day: got %d of 12 episodes that differ, want 12", r.Differ)
	}
}

// TestResumeOnAnotherDay checks that a run resumed on another day keeps the date in its prompts.
func TestResumeOnAnotherDay(t *testing.T) {
	dir := t.TempDir()
	datedModel(t, dir)
	run := func(day time.Time, name, steps string) (rundir.State, []int32) {
		onDay(t, day, dir, "train", "--set", "model.path=m", "--set", "model.fresh.layers=0", "--set", "model.fresh.walks=0", "--set", "sft.epochs=0",
			"--set", "env.expert_tasks=[]", "--set", "env.tasks=18", "--set", "data.train_batch_size=1", "--set", "rollout.group_size=2", "--set", "env.max_turns=2",
			"--set", "rollout.max_context_tokens=2048", "--set", "trainer.test_every=0", "--set", "trainer.val_before_train=false", "--set", "trainer.save_every=1",
			"--set", "trainer.experiment="+name, "--set", "trainer.total_steps="+steps, "--set", "trainer.resume=auto")
		st, err := rundir.ReadState(filepath.Join(dir, "runs", name, "checkpoints", "step_00000"+steps))
		if err != nil {
			t.Fatal(err)
		}
		e := readDump(t, filepath.Join(dir, "runs", name, "rollouts", "step_"+steps+".jsonl"))[0]
		return st, e.Tokens[:e.Turns[0].Start]
	}
	st, first := run(monday, "a", "1")
	if st.Day != "2026-03-02" {
		t.Errorf("the checkpoint has the day %q", st.Day)
	}
	again, resumed := run(later, "a", "2")
	if again.Step != 2 || again.Day != st.Day || !slices.Equal(resumed, first) {
		t.Errorf("resumed at step %d on %s: the checkpoint has day %s, the prompt is unchanged: %t", again.Step, later.Format(time.DateOnly), again.Day, slices.Equal(resumed, first))
	}
	if _, anew := run(later, "b", "1"); slices.Equal(anew, first) {
		t.Error("a new run on another day has the same prompt")
	}
	if _, err := os.Stat(filepath.Join(dir, "runs", "a-2")); err == nil {
		t.Error("the run was started anew, not resumed")
	}
}
