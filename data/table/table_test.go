package table

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func table(t *testing.T, name, text string) *Table {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	table, err := Read(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func written(t *testing.T, table *Table, asParquet bool) string {
	t.Helper()
	var b bytes.Buffer
	if err := table.Write(&b, asParquet); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func add[T string | int64 | float64](t *testing.T, table *Table, name string, values [][]T) {
	t.Helper()
	if err := Add(table, name, values); err != nil {
		t.Fatal(err)
	}
}

// TestTableOfJSON checks that rows keep their text, including numbers too large for a float64.
func TestTableOfJSON(t *testing.T) {
	table := table(t, "in.jsonl", `{"z": 12345678901234567890, "prompt": "<p>", "reward_model": {"ground_truth": ["a", 2]}}`+"\n{}\n")
	add(t, table, "responses", [][]string{{"<b>", "c"}, {}})
	add(t, table, "scores", [][]float64{{0.5}, {1}})
	want := `{"z":12345678901234567890,"prompt":"<p>","reward_model":{"ground_truth":["a",2]},"responses":["<b>","c"],"scores":[0.5]}` + "\n" +
		`{"responses":[],"scores":[1]}` + "\n"
	if got := written(t, table, false); got != want {
		t.Errorf("written:\n%s", got)
	}
	row, err := table.Row(0)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"prompt": "<p>", "reward_model.ground_truth": `["a",2]`, "z": "12345678901234567890", "reward_model.x": "", "prompt.x": "", "none": "",
	} {
		if got := TextAt(row, path); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	if err := Add(table, "prompt", [][]string{{}, {}}); err == nil || !strings.Contains(err.Error(), "a column prompt") {
		t.Errorf("a second column prompt: error %v", err)
	}
	if err := Add(table, "more", [][]string{{}}); err == nil {
		t.Error("a column of another length: no error")
	}
	for name, ok := range map[string]bool{"x.jsonl": true, "x.parquet": false, "x.csv": false} {
		if err := table.CheckOutput(name); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTableOfParquet checks that a rewritten parquet file keeps every null and list and can be extended again.
func TestTableOfParquet(t *testing.T) {
	var b bytes.Buffer
	w := NewRecordWriter(&b, Layout{Format: ParquetFile})
	text := func(s string) *string { return &s }
	no := false
	index := int64(7)
	for _, r := range []Record{
		{ItemID: text("maze_1"), Prompt: []RecordMessage{{Role: text("user"), Content: text("u")}}, Conversations: []RecordMessage{{From: text("gpt"), Value: text("v"), Loss: &no}, {From: text("human")}}},
		{Prompt: []RecordMessage{}, RewardModel: &RecordReward{GroundTruth: text("g")}, ExtraInfo: &RecordExtra{Index: &index}},
	} {
		if err := w.Write(&r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	first := table(t, "in.parquet", b.String())
	before := written(t, first, false)
	add(t, first, "responses", [][]string{{"a", "b"}, {}})
	add(t, first, "response_tokens", [][]int64{{3, 4}, {}})
	second := table(t, "out.parquet", written(t, first, true))
	add(t, second, "scores", [][]float64{{0.5, 1}, {-1}})
	third := table(t, "again.parquet", written(t, second, true))
	var want, got []map[string]any
	for i, line := range strings.Split(strings.TrimSpace(before), "\n") {
		var row map[string]any
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		row["responses"], row["response_tokens"], row["scores"] = []any{"a", "b"}, []any{3., 4.}, []any{0.5, 1.}
		if i == 1 {
			row["responses"], row["response_tokens"], row["scores"] = []any{}, []any{}, []any{-1.}
		}
		want = append(want, row)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(written(t, third, false)), "\n") {
		var row map[string]any
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		got = append(got, row)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	row, err := third.Row(1)
	if err != nil || TextAt(row, "extra_info.index") != "7" || TextAt(row, "reward_model.ground_truth") != "g" || At(row, "item_id") != nil {
		t.Errorf("row 1 is %v, %v", row, err)
	}
	if err := third.CheckOutput("x.parquet"); err != nil {
		t.Error(err)
	}
}

func TestReadErrors(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "list": "[1, 2]", "torn": `{"a":1}` + "\n" + `{"a":`, "parquet": "PAR1PAR1PAR1PAR1"} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(t.Context(), path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
