package run

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/internal/errext"
)

// opened writes files to the folder of a new host and opens a training run on it.
func opened(t *testing.T, files map[string]string, text string, sets ...string) (*training, error) {
	t.Helper()
	return openedTo(t, nil, files, text, sets...)
}

func openedTo(t *testing.T, log *slog.Logger, files map[string]string, text string, sets ...string) (*training, error) {
	t.Helper()
	ts := newTestHost(t)
	if log != nil {
		ts.Log = log
	}
	for name, content := range files {
		writeFile(t, ts.Dir, name, content)
	}
	cfg, err := Schema.Load("run.toml", []byte(text), sets)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := openTraining(t.Context(), &ts.Host, cfg, &runFolder{Folder: &rundir.Folder{Dir: t.TempDir()}}, reinforced)
	t.Cleanup(func() {
		if err := tr.close(); err != nil {
			t.Error(err)
		}
	})
	return tr, err
}

// openedWithLog is like opened and also returns the log.
func openedWithLog(t *testing.T, files map[string]string, text string, sets ...string) (*training, string, error) {
	t.Helper()
	var log syncBuffer
	tr, err := openedTo(t, slog.New(slog.NewTextHandler(&log, nil)), files, text, sets...)
	return tr, log.String(), err
}

// TestFreshModelWithoutExperts checks that a fresh model can be trained without experts
// if its vocabulary is bytes. A bpe vocabulary needs text.
func TestFreshModelWithoutExperts(t *testing.T) {
	alone := []string{"sft.epochs=0", "env.maze.expert_tasks=", "model.fresh.walks=0"}
	if _, err := opened(t, nil, tinyRun, append(alone, "model.fresh.vocabulary=bytes")...); err != nil {
		t.Error(err)
	}
	_, err := opened(t, nil, tinyRun, alone...)
	if code := CodeOf(t.Context(), err); code != errext.Input {
		t.Errorf("exit code %d: %v", code, err)
	}
	mustContain(t, "the error", err.Error(), "bpe vocabulary", `model.fresh.vocabulary = "bytes"`)
}

const (
	mazeRow  = `{"item_id":"maze_17","conversations":[{"from":"human","value":"Go."},{"from":"gpt","value":"Action:\nmove up","loss":true}]}` + "\n"
	craftRow = `{"item_id":"textcraft_3","conversations":[{"from":"human","value":"Craft."},{"from":"gpt","value":"Action:\nget 1 log","loss":true}]}` + "\n"
)

// TestRecordedAndSolvedTrajectories checks that the data has both recorded trajectories
// and solutions of the built-in solver.
func TestRecordedAndSolvedTrajectories(t *testing.T) {
	for _, sets := range [][]string{
		{"env.maze.tasks=rows.jsonl"},
		{"sft.files=rows.jsonl"},
	} {
		tr, err := opened(t, map[string]string{"rows.jsonl": mazeRow}, tinyRun, append(sets, "env.maze.expert_tasks=18")...)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(tr.experts); n != 2 || tr.experts[0].Index != 18 || tr.experts[1].Index != 17 {
			t.Errorf("%q: got %d trajectories, want the solution of task 18 and the recorded task 17: %+v", sets, n, tr.experts)
		}
	}
}

// TestTrajectoriesOfAMixture checks that with several environments a file may have rows
// of one or more environments. A file that has rows of none of them is rejected.
func TestTrajectoriesOfAMixture(t *testing.T) {
	mixture := tinyRun + "\n[[env]]\nname = \"textcraft\"\ntasks = \"0-3\"\nformat = \"react\"\n"
	files := map[string]string{"maze.jsonl": mazeRow, "craft.jsonl": craftRow, "all.jsonl": mazeRow + craftRow,
		"wordle.jsonl": `{"item_id":"lmrlgym_wordle_3","conversations":[{"from":"human","value":"Go."}]}` + "\n"}
	sets := []string{"model.fresh.walks=0", "env.maze.expert_tasks="}
	for list, want := range map[string]int{`["maze.jsonl","craft.jsonl"]`: 2, "maze.jsonl": 1, "all.jsonl": 2} {
		tr, err := opened(t, files, mixture, append(sets, "sft.files="+list)...)
		if err != nil {
			t.Errorf("%s: %v", list, err)
		} else if len(tr.experts) != want {
			t.Errorf("%s: %d trajectories, want %d", list, len(tr.experts), want)
		}
	}
	_, err := opened(t, files, mixture, append(sets, `sft.files=["all.jsonl","wordle.jsonl"]`)...)
	if code := CodeOf(t.Context(), err); code != errext.Input {
		t.Fatalf("exit code %d: %v", code, err)
	}
	mustContain(t, "the error", err.Error(), "wordle.jsonl", "its rows are for")
}

// TestTrajectoryTooLong checks that a trajectory above the length limit is reported before the fresh model is pretrained on random walks, and that the hint names allowed values.
func TestTrajectoryTooLong(t *testing.T) {
	fit := func(sets ...string) (*testHost, error) {
		h := newTestHost(t)
		cfg, err := Schema.Load("run.toml", []byte(tinyRun), append([]string{"trainer.total_steps=1", "sft.max_length=20"}, sets...))
		if err != nil {
			t.Fatal(err)
		}
		r, err := Open(t.Context(), cfg, h.Host)
		if err == nil {
			_, err = r.Fit(t.Context(), t.Context())
		}
		return h, err
	}
	h, err := fit()
	if code := CodeOf(t.Context(), err); code != errext.Input {
		t.Fatalf("exit code %d: %v", code, err)
	}
	mustContain(t, "the error", err.Error(), "more than the 20 allowed", `raise sft.max_length, or set sft.truncation = "drop"`)
	if strings.Contains(h.log.String(), "trained on its walks") {
		t.Error("the model trained on its walks before the trajectories were checked")
	}
	if _, err = fit("sft.truncation=drop"); CodeOf(t.Context(), err) != errext.Input || !strings.HasSuffix(err.Error(), "too long for 20 tokens: raise sft.max_length") {
		t.Errorf("with the settings of the hint: %v", err)
	}
}

// TestSkippedRows checks that rows without a conversation or with an unknown task are
// skipped, and that the log has their number. A file is rejected if all rows are skipped.
func TestSkippedRows(t *testing.T) {
	const (
		noConversation = `{"item_id":"maze_16"}` + "\n"
		unknownTask    = `{"item_id":"maze_4096","conversations":[{"from":"human","value":"Go."},{"from":"gpt","value":"Action:\nmove up","loss":true}]}` + "\n"
	)
	files := map[string]string{"some.jsonl": mazeRow + noConversation + unknownTask + noConversation, "none.jsonl": noConversation + unknownTask}
	alone := []string{"env.maze.expert_tasks="}
	tr, text, err := openedWithLog(t, files, tinyRun, append(alone, "sft.files=some.jsonl")...)
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.experts) != 1 {
		t.Errorf("%d trajectories, want 1", len(tr.experts))
	}
	mustContain(t, "the log", text, "skipped", "some.jsonl", "rows=4", "without_conversation=2", "unknown_task=1")

	// A file without usable rows is rejected even if other files have trajectories.
	_, _, err = openedWithLog(t, files, tinyRun, `sft.files=["some.jsonl","none.jsonl"]`)
	if code := CodeOf(t.Context(), err); code != errext.Input {
		t.Fatalf("exit code %d: %v", code, err)
	}
	mustContain(t, "the error", err.Error(), "none.jsonl: none of the 2 rows", "1 hold no conversation, 1 name unknown tasks", "maze_4096")

	writeRows := map[string]string{"tasks.jsonl": mazeRow + noConversation}
	_, text, err = openedWithLog(t, writeRows, tinyRun, append(alone, "env.maze.tasks=tasks.jsonl")...)
	if err != nil {
		t.Fatal(err)
	}
	mustContain(t, "the log", text, "not imitated", "tasks=1")
}

// TestPairsAreNoTasks checks that pairs of prompts and responses are not reported as a leak if
// their row numbers equal indices of validation tasks. Trajectories of these tasks are reported.
func TestPairsAreNoTasks(t *testing.T) {
	files := map[string]string{"pairs.jsonl": strings.Repeat(`{"question":"say up","answer":"up"}`+"\n", 18), "rows.jsonl": mazeRow}
	sets := []string{"env.maze.val_tasks=17", "env.maze.tasks=18", "env.maze.expert_tasks=", "model.fresh.walks=0", "model.fresh.vocabulary=bytes"}
	_, text, err := openedWithLog(t, files, tinyRun, append(sets, "sft.files=pairs.jsonl", "sft.prompt_key=question", "sft.response_key=answer")...)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, "leak") {
		t.Errorf("a pair was reported as a leak:\n%s", text)
	}
	_, text, err = openedWithLog(t, files, tinyRun, append(sets, "sft.files=rows.jsonl")...)
	if err != nil {
		t.Fatal(err)
	}
	mustContain(t, "the log", text, "validation tasks are imitated", "indices=17")
}

// TestRowsWithoutATask checks that rows to play need a task index, but conversations to
// train on do not.
func TestRowsWithoutATask(t *testing.T) {
	files := map[string]string{
		"pairs.jsonl": `{"question":"q","answer":"a"}` + "\n",
		"chats.jsonl": `{"conversations":[{"from":"human","value":"Go."},{"from":"gpt","value":"Action:\nmove up","loss":true}]}` + "\n",
	}
	for _, file := range []string{"pairs.jsonl", "chats.jsonl"} {
		_, err := opened(t, files, tinyRun, "env.maze.tasks="+file)
		if code := CodeOf(t.Context(), err); code != errext.Input {
			t.Fatalf("%s: exit code %d: %v", file, code, err)
		}
		mustContain(t, file, err.Error(), "env.maze.tasks", file, "row 0, line 1", "it has no task index in its columns")
	}
	tr, err := opened(t, files, tinyRun, "sft.files=chats.jsonl", "env.maze.expert_tasks=")
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.recordedTasks) != 1 {
		t.Errorf("%d conversations, want 1", len(tr.recordedTasks))
	}
}
