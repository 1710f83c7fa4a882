package env

import (
	"context"
	"errors"
	"testing"

	"github.com/openmanus/openmanus/data"
)

func taskAt(index int) data.Task { return data.Task{ID: "t", Index: index} }

// TestPromptTask plays a prompt task: its reply is scored once, with the task's data.
func TestPromptTask(t *testing.T) {
	var judged []string
	spec := Prompts("sums", 0.5, func(_ context.Context, task data.Task, reply string) (float64, error) {
		judged = append(judged, task.GroundTruth+"|"+reply)
		if reply == "fail" {
			return 0, errors.New("broken")
		}
		return 0.75, nil
	})
	c, err := spec.New(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	task := data.Task{ID: "sums_1", GroundTruth: "4", Prompt: []data.Message{{Role: "system", Content: "Add."}, {Role: "user", Content: "2+2?"}}}
	for range 2 { // an instance is reused
		obs, err := ResetTask(t.Context(), c, task)
		if err != nil || obs.Text != "2+2?" {
			t.Fatalf("reset: %+v, %v", obs, err)
		}
		r, err := c.Step(t.Context(), " 4\n")
		if err != nil || r.Reward != 0.75 || !r.Done || !r.Sent || r.Observation != "" || !spec.Success(r.Reward) {
			t.Fatalf("step: %+v, %v", r, err)
		}
	}
	if _, err := c.Step(t.Context(), "5"); err == nil {
		t.Error("a task accepts a second reply")
	}
	if _, err := c.Reset(t.Context(), 1); err == nil {
		t.Error("an index is enough for a prompt task")
	}
	if _, err := ResetTask(t.Context(), c, data.Task{ID: "empty"}); err == nil {
		t.Error("a task without a prompt was started")
	}
	if _, err := ResetTask(t.Context(), c, task); err != nil {
		t.Fatal(err)
	}
	_, err = c.Step(t.Context(), "fail")
	if e, ok := errors.AsType[*JudgeError](err); !ok || e.Task != "sums_1" || !e.Hopeless() {
		t.Errorf("the score function's error became %v", err)
	}
	if want := []string{"4| 4\n", "4| 4\n", "4|fail"}; len(judged) != 3 || judged[0] != want[0] || judged[2] != want[2] {
		t.Errorf("judged %q, want %q", judged, want)
	}
	if _, err := Prompts("sums", 0, nil).New(t.Context(), Options{}); err == nil {
		t.Error("prompt tasks without a score function can be played")
	}
}
