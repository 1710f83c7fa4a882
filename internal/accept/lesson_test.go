package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/env/builtin"
)

// TestLessonsAreConfigurations checks of every lesson that its settings are valid, that validation has enough episodes, that
// it validates after the last step, and that the split depends on the seed and holds tasks out.
func TestLessonsAreConfigurations(t *testing.T) {
	for _, l := range lessons {
		t.Run(l.name, func(t *testing.T) {
			var before []string
			for seed := 1; seed <= 2; seed++ {
				dir := t.TempDir()
				sets, err := l.prepare(dir, seed)
				if err != nil {
					t.Fatal(err)
				}
				text, err := os.ReadFile(filepath.Join(dir, l.base+".toml"))
				if err != nil {
					t.Fatal(err)
				}
				c, err := schema.Load(l.base+".toml", text, sets)
				if err != nil {
					t.Fatal(err)
				}
				e := c.Env[0]
				if c.Trainer.Experiment != l.base || e.Name != l.base || len(c.Env) != 1 {
					t.Errorf("experiment %s in environment %s, want %s", c.Trainer.Experiment, e.Name, l.base)
				}
				if c.Trainer.TotalSteps%c.Trainer.TestEvery != 0 || !c.Trainer.ValBeforeTrain {
					t.Errorf("no validation before the first of %d steps or after the last: every %d", c.Trainer.TotalSteps, c.Trainer.TestEvery)
				}
				if n := l.held * c.Rollout.Val.GroupSize; n < leastValidation {
					t.Errorf("%d validation episodes, want at least %d", n, leastValidation)
				}
				var val, train, solved []string
				if e.Kind == "prompt" {
					val, train = readSums(t, filepath.Join(dir, "val.jsonl")), readSums(t, filepath.Join(dir, "train.jsonl"))
					solved = readSums(t, filepath.Join(dir, "solved.jsonl"))
				} else {
					val, train, solved = texts(t, e.ValTasks), texts(t, e.Tasks), texts(t, e.ExpertTasks)
				}
				for _, i := range solved {
					if !slices.Contains(train, i) {
						t.Errorf("task %s has a solution and is not a training task", i)
					}
				}
				if len(solved) != l.show {
					t.Errorf("%d tasks with solutions, want %d", len(solved), l.show)
				}
				if len(val) != l.held {
					t.Errorf("%d validation tasks, want %d", len(val), l.held)
				}
				for _, task := range val {
					if slices.Contains(train, task) {
						t.Errorf("task %s is in training and in validation", task)
					}
				}
				if own, err := schema.Load(l.base+".toml", text, l.sets); seed == 1 && (err != nil || e.Kind != "prompt" && !slices.Equal(val, texts(t, own.Env[0].ValTasks))) {
					t.Errorf("lessons/%s.toml (%v) has not the split of seed 1: want %q", l.base, err, sets)
				}
				if slices.Equal(val, before) && l.base != "wordle" { // the game of an index is random
					t.Error("seeds 1 and 2 have the same validation tasks")
				}
				before = val
			}
		})
	}
}

// texts parses task indices.
func texts(t *testing.T, entries []string) (out []string) {
	t.Helper()
	all, err := configs.ParseIndices(strings.Join(entries, ","))
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		out = append(out, fmt.Sprint(i))
	}
	return out
}

// readSums reads a file of writeSums and returns the two numbers of each row, the smaller first. Each answer must be the sum.
func readSums(t *testing.T, path string) (out []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var row struct{ Question, Answer string }
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		var a, b int
		if _, err := fmt.Sscanf(row.Question, "What is %d + %d?", &a, &b); err != nil || fmt.Sprint(a+b) != row.Answer {
			t.Errorf("row %s (%v)", line, err)
		}
		out = append(out, fmt.Sprint(min(a, b), max(a, b)))
	}
	return out
}

// TestTextcraftLessonDepth checks that the tasks of the lesson textcraft are those before the first that takes more than
// four actions, and that they have the depths 1 and 2.
func TestTextcraftLessonDepth(t *testing.T) {
	i := slices.IndexFunc(lessons, func(l lesson) bool { return l.name == "textcraft" })
	var want []string
	got := texts(t, []string{lessons[i].pool})
	depths := map[int]int{}
	for b, i := builtin.OwnBook(), 0; len(b.Expert(i)) <= 4; i++ {
		want = append(want, fmt.Sprint(i))
		depths[b.Depth(i)]++
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(map[int]int{1: 33, 2: 10}, depths); diff != "" {
		t.Errorf("number of tasks of each depth, -want +got:\n%s", diff)
	}
}

// TestWordleLessonWords checks that the vocabulary is valid and that its games can be solved.
func TestWordleLessonWords(t *testing.T) {
	v, err := builtin.ParseVocabulary(fewWords)
	if err != nil {
		t.Fatal(err)
	}
	for seed := range int64(50) {
		if builtin.WordleExpert(v, seed) == nil {
			t.Errorf("no solution of game %d", seed)
		}
	}
}

// TestWordleReward runs the program of the shaped reward.
func TestWordleReward(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	dir := t.TempDir()
	if err := writeWords(lesson{}, dir, rand.New(rand.NewPCG(1, 1))); err != nil {
		t.Fatal(err)
	}
	turn := func(action, observation string) map[string]any {
		return map[string]any{"action": action, "parsed": true, "observation": observation}
	}
	sample := func(reward float64, turns ...any) map[string]any {
		return map[string]any{"env_reward": reward, "turns": turns}
	}
	request, err := json.Marshal(map[string]any{"request": 7, "samples": []any{
		sample(1, turn("p a n i c", "g g g g g")),
		sample(0, turn("p a n i c", "g b b y b"), turn("p r i c k", "g b b y b")),               // prick: r, i and c contradict the first answer
		sample(0, turn("p o i n t", "b g b b b"), turn("m o i s t", "invalid word")),            // a guess outside of the list
		sample(0, turn("l i g h t", "b b b b b"), turn("s o l a r", "g b b b b")),               // solar has an l
		sample(0, turn("l i g h t", "b b b b b"), turn("p r o x y", "b y b b b"), turn("", "")), // the last reply has no guess
		sample(0, turn("l i g h t", "b b b b b"), turn("l i g h t", "b b b b b")),               // a repeated guess
		sample(0),
	}})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "wordle_reward.py")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(string(request)+"\n")
	in, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(in)
	if err != nil || cmd.Wait() != nil {
		t.Fatalf("the program failed (%v): %s", err, text)
	}
	var reply struct {
		Request int
		Scores  []struct{ Score float64 }
	}
	if err := json.Unmarshal(text, &reply); err != nil {
		t.Fatal(err)
	}
	var got []float64
	for _, s := range reply.Scores {
		got = append(got, s.Score)
	}
	if diff := cmp.Diff([]float64{1, 0.375, 0.25, 0.375, 1. / 3, 0.25, 0}, got); diff != "" || reply.Request != 7 {
		t.Errorf("request %d, -want +got:\n%s", reply.Request, diff)
	}
}
