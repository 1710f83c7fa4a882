package run_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/cli/run"
)

// reports prints the validations of a run while it trains.
type reports struct{}

func (reports) Phase(algo.Phase)                  {}
func (reports) Progress(int, string)              {}
func (reports) Step(int, int, map[string]float64) {}

func (reports) Validated(v rundir.Validation) {
	for _, r := range v.Results() {
		fmt.Printf("validation (%s) of %s: %.0f episodes\n", v.Label, r.Env, r.Episodes)
	}
}

// Example_events shows a run while it trains, reads its metrics and plays with the result.
func Example_events() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "events-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	settings := []string{
		"model.fresh.layers=1", "model.fresh.walks=0", "env.maze.max_turns=3", "env.maze.tasks=6,7", "env.maze.val_tasks=16", "data.train_batch_size=2",
		"rollout.group_size=3", "rollout.val.group_size=4", "trainer.total_steps=2", "sft.epochs=1",
	}
	open := func(settings ...string) *run.Run {
		cfg, err := run.Schema.LoadPreset("quickstart", nil, settings)
		if err != nil {
			log.Fatal(err)
		}
		r, err := run.Open(ctx, cfg, run.Host{Dir: dir, Events: reports{}})
		if err != nil {
			log.Fatal(err)
		}
		return r
	}

	result, err := open(settings...).Fit(ctx, ctx)
	if err != nil {
		log.Fatal(err)
	}
	steps := 0
	err = track.Read(result.Folder.Metrics(), func(line track.Line) error {
		if _, ok := line.Metrics[track.SuccessRate]; ok {
			steps++
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("metrics of %d steps\n", steps)

	played, err := open(append(settings, "model.fresh.layers=0", "model.path="+result.Actor())...).Eval(ctx, run.EvalOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d task with %d episodes each\n", played.Tasks, played.Samples)
	// Output:
	// validation (before) of maze: 4 episodes
	// validation (after) of maze: 4 episodes
	// metrics of 2 steps
	// 1 task with 4 episodes each
}
