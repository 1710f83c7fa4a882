package table

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/openmanus/openmanus/data"
)

// TestRealRows reads OpenManus-RL's own files, if they are present, and compares them with protocol 7.2.
func TestRealRows(t *testing.T) {
	dir := filepath.Join("..", "..", "shared", "data")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("the real OpenManus-RL files are not here: %v", err)
	}
	for _, tc := range []struct {
		file              string
		rows, ids, lo, hi int
		prefix            string
	}{
		{"maze/train.parquet", 215, 11, 13, 25, "lmrlgym_maze_"},
		{"maze/val.parquet", 20, 0, 13, 25, "lmrlgym_maze_"},
		{"maze/test.parquet", 10, 0, 13, 25, "lmrlgym_maze_"},
		{"textcraft/train.parquet", 374, 0, 31, 537, "textcraft_"},
		{"babyai/train.parquet", 810, 0, 0, 11155, "babyai_"},
		{"movie/train.parquet", 215, 0, 0, 237, "movie_"},
		{"todo/train.parquet", 135, 0, 0, 154, "todo_"},
		{"weather/train.parquet", 311, 0, 0, 342, "weather_"},
		{"wordle/train.parquet", 955, 0, 0, 1450, "lmrlgym_wordle_"},
		{"wordle/test.parquet", 21, 0, 0, 1450, "lmrlgym_wordle_"},
	} {
		t.Run(tc.file, func(t *testing.T) {
			env := filepath.Dir(tc.file)
			tasks, err := LoadTasks(context.Background(), filepath.Join(dir, tc.file), LoadOptions{Env: env})
			if err != nil {
				t.Fatal(err)
			}
			if len(tasks) != tc.rows {
				t.Errorf("%d rows, want %d", len(tasks), tc.rows)
			}
			ids := map[string]bool{}
			for i, task := range tasks {
				ids[task.ID] = true
				_, index, ok := splitID(task.ID)
				if !ok || task.Index != index || index < tc.lo || index > tc.hi || !strings.HasPrefix(task.ID, tc.prefix) || task.Env != env {
					t.Fatalf("row %d: id %q, index %d, env %q", i, task.ID, task.Index, task.Env)
				}
				checkConversation(t, i, task)
			}
			if tc.ids > 0 && len(ids) != tc.ids {
				t.Errorf("%d distinct ids, want %d", len(ids), tc.ids)
			}
		})
	}
}

// checkConversation compares a recorded episode with protocol 7.2: instruction, acknowledgement outside the loss,
// observation, then replies inside the loss.
func checkConversation(t *testing.T, row int, task data.Task) {
	t.Helper()
	c := task.Conversation
	if len(c) < 4 || len(c)%2 != 0 {
		t.Fatalf("row %d: %d messages", row, len(c))
	}
	for i, m := range c {
		role := []string{"user", "assistant"}[i%2]
		if m.Role != role || m.Content == "" {
			t.Fatalf("row %d: message %d has role %q, want %q", row, i, m.Role, role)
		}
		if wantLoss := i%2 == 1; (m.Loss != nil) != wantLoss || wantLoss && *m.Loss != (i > 1) {
			t.Fatalf("row %d: message %d has loss %v", row, i, m.Loss)
		}
	}
	if len(task.Prompt) != 1 || task.Prompt[0].Role != "user" || task.GroundTruth == "" {
		t.Fatalf("row %d: prompt %v, ground truth of %d bytes", row, task.Prompt, len(task.GroundTruth))
	}
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoadJSON(t *testing.T) {
	yes, no := true, false
	full := `{"item_id":"lmrlgym_maze_13","conversations":[{"from":"human","loss":null,"value":"hi"},{"from":"gpt","loss":false,"value":"OK"},{"from":"gpt","loss":true,"value":"go"}]}`
	fullTask := data.Task{ID: "lmrlgym_maze_13", Env: "maze", Index: 13, Conversation: []data.Message{
		{Role: "user", Content: "hi"}, {Role: "assistant", Content: "OK", Loss: &no}, {Role: "assistant", Content: "go", Loss: &yes},
	}}
	for name, tc := range map[string]struct {
		text string
		o    LoadOptions
		want []data.Task
	}{
		"lines":      {full + "\n\n" + `{"item_id":"webshop_7"}`, LoadOptions{}, []data.Task{fullTask, {ID: "webshop_7", Env: "webshop", Index: 7}}},
		"array":      {"\ufeff [" + full + ",\n{\"item_id\":\"webshop_7\"}] \n", LoadOptions{}, []data.Task{fullTask, {ID: "webshop_7", Env: "webshop", Index: 7}}},
		"env filter": {full + `{"item_id":"webshop_7"}`, LoadOptions{Env: "webshop"}, []data.Task{{ID: "webshop_7", Env: "webshop", Index: 7}}},
		"limit":      {full + "\n" + full + "\n broken", LoadOptions{Limit: 2}, []data.Task{fullTask, fullTask}},
		"roles": {
			`{"id":"textcraft_3","conversations":[{"role":"system","content":"s"},{"role":"user","content":""},{"role":"assistant","content":"a","loss":false}]}`,
			LoadOptions{},
			[]data.Task{{ID: "textcraft_3", Env: "textcraft", Index: 3, Conversation: []data.Message{
				{Role: "system", Content: "s"}, {Role: "user"}, {Role: "assistant", Content: "a", Loss: &no},
			}}},
		},
		"extra_info":  {`{"data_source":"maze","item_id":"x","extra_info":{"index":4}}`, LoadOptions{}, []data.Task{{ID: "x", Env: "maze", Index: 4}}},
		"suffix wins": {`{"data_source":"maze","item_id":"x_9","extra_info":{"index":4}}`, LoadOptions{}, []data.Task{{ID: "x_9", Env: "maze", Index: 9}}},
		"no index":    {`{"id":"a"}{"id":5}{}`, LoadOptions{Env: "e"}, []data.Task{{ID: "a", Env: "e", Index: data.NoIndex}, {ID: "5", Env: "e", Index: 5}, {ID: "e:2", Env: "e", Index: data.NoIndex}}},
		"truth":       {`{"data_source":"m","item_id":"m_1","reward_model":{"ground_truth":"g","style":"rule"},"prompt":[{"role":"user","content":"p"}]}`, LoadOptions{}, []data.Task{{ID: "m_1", Env: "m", Index: 1, GroundTruth: "g", Prompt: []data.Message{{Role: "user", Content: "p"}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := LoadTasks(context.Background(), write(t, "x.jsonl", tc.text), tc.o)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestLoadErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		env  string
		want string
	}{
		"empty":            {"", "", "no rows"},
		"empty array":      {"[]", "", "no rows"},
		"broken line":      {"{\"item_id\":\"a_1\"}\n{", "", "row 1, line 2: the file ends inside"},
		"not JSON":         {"hello", "", `line 1: it begins with "hello"`},
		"array cut off":    {`[{"item_id":"a_1"},`, "", "row 1, line 1: the file ends inside"},
		"no comma":         {"[{\"item_id\":\"a_1\"}\n{}]", "", `row 1, line 2: '{' in place of a comma`},
		"not an object":    {"[\n1]", "", `row 0, line 2: '1' in place of a row`},
		"fault inside":     {"{\"item_id\":\"a_1\"}\n{\n\"item_id\":\n\"a_2\",\nx}", "", "row 1, line 5: invalid character"},
		"dump":             {"{\"format\":\"openmanus-episodes\",\"version\":1}\n{}\n", "", "data convert"},
		"after the array":  {`[{"item_id":"a_1"}] x`, "", "after the array"},
		"unknown role":     {`{"item_id":"a_1","conversations":[{"from":"tool","value":"x"}]}`, "", `row 0, line 1: conversations: message 0: unknown role "tool"`},
		"no text":          {`{"item_id":"a_1"}{"item_id":"a_1","conversations":[{"from":"gpt"}]}`, "", "row 1, line 1: conversations: message 0 has no role"},
		"number as text":   {`{"item_id":"a_1","conversations":[{"from":"gpt","value":1}]}`, "", "row 0, line 1: json: cannot unmarshal number"},
		"nothing known":    {`{}`, "", "row 0, line 1: it has neither item_id"},
		"id is a list":     {`{"id":[]}`, "m", "row 0, line 1: id is []"},
		"other env":        {`{"item_id":"a_1"}{"item_id":"b_1"}{"item_id":"a_2"}`, "maze", `no row is for environment "maze"; its rows are for a (2), b (1)`},
		"parquet, garbage": {"PAR1 and nothing else PAR1", "", "parquet"},
		"parquet, cut":     {"PAR1", "", "parquet"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, "x.data", tc.text)
			_, err := LoadTasks(context.Background(), path, LoadOptions{Env: tc.env})
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v, want %q and the path", err, tc.want)
			}
		})
	}
	for _, path := range []string{t.TempDir(), filepath.Join(t.TempDir(), "absent")} {
		if _, err := LoadTasks(context.Background(), path, LoadOptions{}); err == nil {
			t.Errorf("LoadTasks(%s): no error", path)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := LoadTasks(ctx, write(t, "x", `{"item_id":"a_1"}`), LoadOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("LoadTasks after cancel = %v", err)
	}
}

// TestLoadParquetSubset checks that files with only some of the columns can be read.
func TestLoadParquetSubset(t *testing.T) {
	type row struct {
		ItemID string `parquet:"item_id"`
	}
	path := filepath.Join(t.TempDir(), "x.parquet")
	if err := parquet.WriteFile(path, []row{{"textcraft_3"}, {"textcraft_4"}}); err != nil {
		t.Fatal(err)
	}
	got, err := LoadTasks(context.Background(), path, LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []data.Task{{ID: "textcraft_3", Env: "textcraft", Index: 3}, {ID: "textcraft_4", Env: "textcraft", Index: 4}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestLoadParquetWithoutLoss checks that a file without a loss column leaves the loss unspecified, which differs
// from loss = false.
func TestLoadParquetWithoutLoss(t *testing.T) {
	type message struct {
		Role    string `parquet:"role"`
		Content string `parquet:"content"`
	}
	type extra struct {
		Split string `parquet:"split"`
	}
	type row struct {
		DataSource    string    `parquet:"data_source"`
		Conversations []message `parquet:"conversations,list"`
		ExtraInfo     extra     `parquet:"extra_info"`
	}
	path := filepath.Join(t.TempDir(), "x.parquet")
	rows := []row{{"m", nil, extra{"train"}}, {"m", []message{{"user", ""}, {"assistant", "b"}}, extra{"train"}}}
	if err := parquet.WriteFile(path, rows); err != nil {
		t.Fatal(err)
	}
	got, err := LoadTasks(context.Background(), path, LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []data.Task{{ID: "m:0", Env: "m", Index: data.NoIndex}, {ID: "m:1", Env: "m", Index: data.NoIndex, Conversation: []data.Message{{Role: "user"}, {Role: "assistant", Content: "b"}}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestParseTaskSpec(t *testing.T) {
	file := write(t, "rows.jsonl", `{"item_id":"maze_40"}`)
	for _, tc := range []struct {
		spec  string
		limit int
		want  string // ids, or the error after "!"
	}{
		{"0-2", 0, "maze_0 maze_1 maze_2"},
		{"0-1, 23,24", 0, "maze_0 maze_1 maze_23 maze_24"},
		{"7", 0, "maze_7"},
		{"5," + file + ",6", 0, "maze_5 maze_40 maze_6"},
		{"0-199", 3, "maze_0 maze_1 maze_2"},
		{"", 0, "!empty"},
		{"1,,2", 0, "!empty"},
		{"3-1", 0, "!descending"},
		{"1-", 0, "!not an index"},
		{"-1", 0, "!not an index"},
		{"1-2-3", 0, "!not an index"},
		{"0-3,2", 0, "!index 2"},
		{"0-2000000000", 0, "!more than"},
		{"99999999999", 0, "!not an index"},
		{"absent.parquet", 0, "!absent.parquet"},
	} {
		tasks, err := ParseTaskSpec(context.Background(), tc.spec, LoadOptions{Env: "maze", Limit: tc.limit})
		if want, bad := strings.CutPrefix(tc.want, "!"); bad {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: error %v, want %q", tc.spec, err, want)
			}
			continue
		}
		var ids []string
		for _, task := range tasks {
			ids = append(ids, task.ID)
			if _, i, ok := splitID(task.ID); !ok || i != task.Index || task.Env != "maze" {
				t.Errorf("%q: %+v", tc.spec, task)
			}
		}
		if got := strings.Join(ids, " "); err != nil || got != tc.want {
			t.Errorf("%q: %q, %v, want %q", tc.spec, got, err, tc.want)
		}
	}
	if _, err := ParseTaskSpec(context.Background(), "1", LoadOptions{}); err == nil {
		t.Error("a range without an environment: no error")
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"item_id":"a_1","conversations":[{"from":"gpt","value":"x","loss":true}]}`))
	f.Add([]byte(`[{"id":1},{"id":"x_2"}]`))
	f.Add([]byte("PAR1PAR1"))
	type row struct {
		ItemID string `parquet:"item_id,optional,dict"`
	}
	var file bytes.Buffer
	if err := parquet.Write(&file, []row{{"maze_3"}, {"maze_4"}}); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		tasks, err := LoadTasks(context.Background(), path, LoadOptions{})
		if (err == nil) != (len(tasks) > 0) {
			t.Fatalf("%d tasks, %v", len(tasks), err)
		}
		for _, task := range tasks {
			if task.Index < data.NoIndex || task.ID == "" {
				t.Fatalf("bad task %+v", task)
			}
		}
	})
}
