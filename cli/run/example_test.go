package run_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/openmanus/openmanus/cli/run"
)

// Example trains a small model for two steps and prints the last validation.
func Example() {
	ctx := context.Background()
	cfg, err := run.Schema.LoadPreset("quickstart", nil, []string{
		"model.fresh.layers=1", "model.fresh.walks=20", "env.maze.max_turns=3", "env.maze.tasks=6,7", "env.maze.val_tasks=16",
		"data.train_batch_size=2", "rollout.group_size=3", "rollout.val.group_size=4", "trainer.total_steps=2",
	})
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "embedding-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	r, err := run.Open(ctx, cfg, run.Host{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	result, err := r.Fit(ctx, ctx)
	if err != nil {
		log.Fatal(err)
	}
	last := result.State.Validations[len(result.State.Validations)-1]
	fmt.Printf("%d steps, %.0f validation episodes\n", result.State.Step, last.Metrics["val/maze/episodes"])
	// Output: 2 steps, 4 validation episodes
}
