package table

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/openmanus/openmanus/data"
)

func TestInspect(t *testing.T) {
	file := write(t, "x.jsonl", `{"item_id":"lmrlgym_maze_4","conversations":[{"from":"human","value":"héllo"},{"from":"gpt","value":"OK","loss":false}]}
{"item_id":"maze_4","conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"},{"from":"human","value":"c"},{"from":"gpt","value":"d","loss":true}]}
{"item_id":"maze_9"}
{"item_id":"todo_1"}`)
	got, err := Inspect(context.Background(), file, "")
	if err != nil {
		t.Fatal(err)
	}
	want := &FileInfo{
		Path: file, Format: LinesFile, Rows: 4, Conversations: 2, Replies: 3, Learned: 2, Others: []string{},
		Envs:     []EnvInfo{{Env: "maze", Rows: 3, Tasks: 2, MinIndex: 4, MaxIndex: 9}, {Env: "todo", Rows: 1, Tasks: 1, MinIndex: 1, MaxIndex: 1}},
		Messages: Range{2, 2, 3, 4}, Chars: Range{2, 4, 5.5, 7},
		Tasks: data.TaskSet{"maze": {4: 2, 9: 1}, "todo": {1: 1}},
	}
	if d := cmp.Diff(want, got, cmpopts.IgnoreFields(FileInfo{}, "Bytes")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestInspectDump(t *testing.T) {
	got, err := Inspect(context.Background(), mixedDump(t), "")
	if err != nil {
		t.Fatal(err)
	}
	want := &DumpInfo{Weights: "w", Outcomes: map[data.Outcome]int{data.Success: 2, data.Done: 1, data.EnvError: 1, data.TurnLimit: 1, data.ContextLimit: 1},
		Reward: Range{5, -1, 0.3, 1}, Turns: Range{Count: 5}, Tokens: Range{5, 5, 11, 20}}
	if d := cmp.Diff(want, got.Dump, cmpopts.EquateApprox(0, 1e-12)); d != "" || got.Format != DumpFile || got.Rows != 6 {
		t.Errorf("%s, %d rows (-want +got):\n%s", got.Format, got.Rows, d)
	}
}

func TestInspectNamesTheRow(t *testing.T) {
	if _, err := Inspect(context.Background(), write(t, "x.jsonl", "{\"item_id\":\"a_1\"}\n{}"), ""); err == nil || !strings.Contains(err.Error(), "row 1, line 2: it has neither") {
		t.Errorf("error %v", err)
	}
	if info, err := Inspect(context.Background(), write(t, "x.jsonl", "{}"), "todo"); err != nil || len(info.Envs) != 1 || info.Envs[0].Rows != 1 || info.Envs[0].Unindexed != 1 {
		t.Errorf("%+v, %v", info, err)
	}
}

// TestRealFilesOverlap checks protocol 7.3 on OpenManus-RL's own files: their validation and test rows are also
// training rows.
func TestRealFilesOverlap(t *testing.T) {
	sets := map[string]map[string]*FileInfo{}
	for _, file := range realFiles(t) {
		info, err := Inspect(context.Background(), file, "")
		if err != nil {
			t.Fatal(err)
		}
		env := filepath.Base(filepath.Dir(file))
		if sets[env] == nil {
			sets[env] = map[string]*FileInfo{}
		}
		sets[env][filepath.Base(file)] = info
		if len(info.Envs) != 1 || info.Envs[0].Env != env || info.Conversations != info.Rows {
			t.Errorf("%s: %+v", file, info)
		}
	}
	if len(sets) != 7 {
		t.Errorf("%d environments, want 7", len(sets))
	}
	for env, files := range sets {
		got := data.Shared(files["train.parquet"].Tasks, files["val.parquet"].Tasks)
		if len(got) != 1 || got[0].Env != env || got[0].Rows != 20 || got[0].Tasks != len(got[0].Indices) {
			t.Errorf("%s: val shares %+v with train, want all 20 rows of val", env, got)
		}
	}
}

func TestShared(t *testing.T) {
	a := data.TasksOf([]data.Task{{Env: "m", Index: 1}, {Env: "m", Index: 5}, {Env: "m", Index: 3}, {Env: "n", Index: 1}})
	b := data.TasksOf([]data.Task{{Env: "m", Index: 3}, {Env: "m", Index: 1}, {Env: "m", Index: 3}, {Env: "m", Index: 2}, {Env: "o", Index: 1}})
	want := []data.Overlap{{Env: "m", Indices: []int{1, 3}, Tasks: 3, Rows: 3}}
	if d := cmp.Diff(want, data.Shared(a, b)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := data.Shared(nil, b); got != nil {
		t.Errorf("Shared(nil, b) = %v, want nil", got)
	}
}
