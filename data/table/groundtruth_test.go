package table

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A structured ground truth stays JSON, for the score function that reads it.
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
