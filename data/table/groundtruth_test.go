package table

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
)

// TestGroundTruthOfJSON checks that a structured ground truth stays JSON, for the score function that reads it.
func TestGroundTruthOfJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in.jsonl")
	text := `{"item_id":"x_1","reward_model":{"ground_truth":"a"}}
{"item_id":"x_2","reward_model":{"ground_truth":{"target": 24}}}
{"item_id":"x_3","reward_model":{"ground_truth":["a"]}}
{"item_id":"x_4","reward_model":{"ground_truth":null}}
{"item_id":"x_5","reward_model":{}}
{"item_id":"x_6","reward_model":{"ground_truth":7}}
`
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	tasks, err := LoadTasks(t.Context(), path, LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, task := range tasks {
		got = append(got, task.GroundTruth)
	}
	if d := cmp.Diff([]string{"a", `{"target": 24}`, `["a"]`, "", "", "7"}, got); d != "" {
		t.Error(d)
	}
}

// TestGroundTruthOfParquet checks that a struct in a parquet file becomes JSON, too. Other columns are skipped and
// reported, so a NaN there, which JSON lacks, is no error.
func TestGroundTruthOfParquet(t *testing.T) {
	type truth struct {
		Target []string `parquet:"target,list"`
	}
	type model struct {
		GroundTruth truth   `parquet:"ground_truth"`
		Weight      float64 `parquet:"weight"`
	}
	type row struct {
		ItemID      string  `parquet:"item_id"`
		Index       float64 `parquet:"index"`
		Prompt      string  `parquet:"prompt"`
		RewardModel model   `parquet:"reward_model"`
	}
	path := filepath.Join(t.TempDir(), "in.parquet")
	nan := math.NaN()
	if err := parquet.WriteFile(path, []row{{"x_1", nan, "p", model{truth{[]string{"<a>", "b"}}, nan}}}); err != nil {
		t.Fatal(err)
	}
	src, records := readRecords(t, path)
	if d := cmp.Diff([]string{"index", "prompt", "reward_model.weight"}, src.Others); d != "" {
		t.Error(d)
	}
	if r := records[0]; r.Index != nil || r.Prompt != nil || *r.RewardModel.GroundTruth != `{"target":["<a>","b"]}` {
		t.Errorf("record %+v, ground truth %s", r, *r.RewardModel.GroundTruth)
	}
}
