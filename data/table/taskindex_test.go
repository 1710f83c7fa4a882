package table

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/openmanus/openmanus/data"
)

// TestTaskIndex checks that every spelling of a task's index is read, from JSON
// and from parquet.
func TestTaskIndex(t *testing.T) {
	for text, want := range map[string]data.Task{
		`{"id":3}`:                             {ID: "3", Env: "textcraft", Index: 3},
		`{"id":"3"}`:                           {ID: "3", Env: "textcraft", Index: 3},
		`{"item_id":"3"}`:                      {ID: "3", Env: "textcraft", Index: 3},
		`{"item_id":3}`:                        {ID: "3", Env: "textcraft", Index: 3},
		`{"index":3}`:                          {ID: "textcraft_3", Env: "textcraft", Index: 3},
		`{"index":"3"}`:                        {ID: "textcraft_3", Env: "textcraft", Index: 3},
		`{"id":"a","index":3}`:                 {ID: "a", Env: "textcraft", Index: 3},
		`{"id":"textcraft_3","index":3}`:       {ID: "textcraft_3", Env: "textcraft", Index: 3},
		`{"index":3,"extra_info":{"index":7}}`: {ID: "textcraft_3", Env: "textcraft", Index: 3},
		`{"item_id":"textcraft_3","extra_info":{"index":7}}`: {ID: "textcraft_3", Env: "textcraft", Index: 3},
		`{"id":"a","extra_info":{"index":3}}`:                {ID: "a", Env: "textcraft", Index: 3},
	} {
		got, err := LoadTasks(context.Background(), write(t, "x.jsonl", text), LoadOptions{Env: "textcraft", Play: true})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if d := cmp.Diff([]data.Task{want}, got); d != "" {
			t.Errorf("%s: (-want +got):\n%s", text, d)
		}
	}
}

func TestTaskIndexParquet(t *testing.T) {
	load := func(name string, rows any) []data.Task {
		t.Helper()
		path := filepath.Join(t.TempDir(), "x.parquet")
		var err error
		switch rows := rows.(type) {
		case []struct {
			ID int64 `parquet:"id"`
		}:
			err = parquet.WriteFile(path, rows)
		case []struct {
			ItemID int32 `parquet:"item_id"`
		}:
			err = parquet.WriteFile(path, rows)
		case []struct {
			Index int64  `parquet:"index"`
			Hint  string `parquet:"hint"`
		}:
			err = parquet.WriteFile(path, rows)
		}
		if err != nil {
			t.Fatal(err)
		}
		tasks, err := LoadTasks(context.Background(), path, LoadOptions{Env: "maze", Play: true})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return tasks
	}
	for name, rows := range map[string]any{
		"id": []struct {
			ID int64 `parquet:"id"`
		}{{5}, {3}},
		"item_id": []struct {
			ItemID int32 `parquet:"item_id"`
		}{{5}, {3}},
		"index": []struct {
			Index int64  `parquet:"index"`
			Hint  string `parquet:"hint"`
		}{{5, "x"}, {3, "y"}},
	} {
		if got := load(name, rows); len(got) != 2 || got[0].Index != 5 || got[1].Index != 3 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestTaskIndexUnknown checks that the error of a row to play without a task index lists the row's columns.
func TestTaskIndexUnknown(t *testing.T) {
	for text, want := range map[string]string{
		`{"question":"q","answer":"a"}`:           "row 0, line 1: it has no task index in its columns answer, question",
		`{"id":1}{"id":"maze-3"}`:                 "row 1, line 1: it has no task index in its columns id",
		`{"id":3.5}`:                              "in its columns id",
		`{"index":"first"}`:                       "in its columns index",
		`{"id":-1}`:                               "in its columns id",
		`{"index":-1}`:                            "in its columns index",
		`{"id":7,"index":3}`:                      "its column index is 3",
		`{"extra_info":{"index":-1,"split":"x"}}`: "in its columns extra_info",
	} {
		_, err := LoadTasks(context.Background(), write(t, "x.jsonl", text), LoadOptions{Env: "maze", Play: true})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
	type pair struct {
		Question string `parquet:"question"`
		Answer   string `parquet:"answer"`
	}
	path := filepath.Join(t.TempDir(), "x.parquet")
	if err := parquet.WriteFile(path, []pair{{"q", "a"}}); err != nil {
		t.Fatal(err)
	}
	want := "row 0: it has no task index in its columns answer, question"
	if _, err := LoadTasks(context.Background(), path, LoadOptions{Env: "maze", Play: true}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("parquet: error %v, want %q", err, want)
	}
	if _, err := ParseTaskSpec(context.Background(), path, LoadOptions{Env: "maze"}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("ParseTaskSpec: error %v, want %q", err, want)
	}
}

// TestConversationsNeedNoIndex checks that rows for supervised training need no task index.
func TestConversationsNeedNoIndex(t *testing.T) {
	text := `{"conversations":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}
{"id":"abc","conversations":[{"role":"user","content":"q"},{"role":"assistant","content":"b"}]}
{"id":"maze_4"}`
	file := write(t, "x.jsonl", text)
	tasks, err := LoadTasks(context.Background(), file, LoadOptions{Env: "maze"})
	if err != nil {
		t.Fatal(err)
	}
	if len(tasks) != 3 || tasks[0].ID != "maze:0" || tasks[0].Index != data.NoIndex || tasks[1].ID != "abc" || tasks[1].Index != data.NoIndex || tasks[2].Index != 4 {
		t.Errorf("%+v", tasks)
	}
	if d := cmp.Diff(data.TaskSet{"maze": {4: 1}}, data.TasksOf(tasks)); d != "" {
		t.Errorf("tasks (-want +got):\n%s", d)
	}
	info, err := Inspect(context.Background(), file, "maze")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]EnvInfo{{Env: "maze", Rows: 3, Tasks: 1, MinIndex: 4, MaxIndex: 4, Unindexed: 2}}, info.Envs); d != "" {
		t.Errorf("Inspect (-want +got):\n%s", d)
	}
}

// TestConvertKeepsTheIndex checks that rows with every spelling of the index are the same tasks after conversion.
func TestConvertKeepsTheIndex(t *testing.T) {
	text := `{"index":3}{"id":"a","index":4,"extra_info":{"index":9}}{"id":5}{"id":"b","conversations":[]}{}`
	want := []int{3, 4, 5, data.NoIndex, data.NoIndex}
	for _, l := range []Layout{{Format: LinesFile}, {Format: LinesFile, Chat: true}, {Format: ParquetFile}} {
		var rows []Record
		w := collector{&rows}
		if _, err := Convert(context.Background(), []string{write(t, "x.jsonl", text)}, w, ConvertOptions{Env: "maze"}); err != nil {
			t.Fatal(err)
		}
		tasks, err := LoadTasks(context.Background(), writeRecords(t, "out", l, rows), LoadOptions{Env: "other", AnyEnv: true})
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, task := range tasks {
			if got = append(got, task.Index); task.Env != "maze" {
				t.Errorf("%+v: env %q", l, task.Env)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%+v (-want +got):\n%s", l, d)
		}
	}
}

type collector struct{ rows *[]Record }

func (c collector) Write(r *Record) error { *c.rows = append(*c.rows, *r); return nil }
func (c collector) Close() error          { return nil }
