package reward

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/table"
)

// TestDataSourceOfRow checks that episodes are scored by the function of the
// column data_source, whose value differs from the name of the environment.
func TestDataSourceOfRow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	row := `{"item_id":"searchqa_3","data_source":"nq","reward_model":{"ground_truth":"Paris"}}` + "\n" +
		`{"item_id":"searchqa_4","data_source":"searchqa"}` + "\n"
	if err := os.WriteFile(path, []byte(row), 0o600); err != nil {
		t.Fatal(err)
	}
	tasks, err := table.LoadTasks(t.Context(), path, table.LoadOptions{Env: "searchqa", Play: true})
	if err != nil || len(tasks) != 2 {
		t.Fatalf("%d tasks, %v", len(tasks), err)
	}
	scorer, err := Open("data_source", nil)
	if err != nil {
		t.Fatal(err)
	}
	score := func(task data.Task, text string) float64 {
		e := &data.Episode{Task: task, Turns: []data.Turn{{Text: text, Reward: 0.5, Parsed: true}}}
		scores, err := scorer.Score(t.Context(), []Sample{SampleOf(e, Last)})
		if err != nil {
			t.Fatal(err)
		}
		return scores[0].Value
	}
	const right, wrong = "<answer>a</answer><answer>Paris</answer>", "<answer>a</answer><answer>Rome</answer>"
	if a, b := score(tasks[0], right), score(tasks[0], wrong); a != 1 || b != 0 {
		t.Errorf("right and wrong answers to a row of nq score %v and %v, want 1 and 0", a, b)
	}
	if got := score(tasks[1], right); got != 0.5 {
		t.Errorf("a row of searchqa scores %v, want the environment's 0.5", got)
	}
}
