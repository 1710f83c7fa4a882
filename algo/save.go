package algo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/rundir/checkpoint"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data/crash"
	"github.com/openmanus/openmanus/torch/shard"
)

// Crash points while a checkpoint is filled.
var (
	atActor     = crash.New("checkpoint/actor")     // before the weights are written
	atOptimizer = crash.New("checkpoint/optimizer") // before the optimiser is written
	atState     = crash.New("checkpoint/state")     // before the state is written
)

// SaveCheckpoint writes checkpoints/step_NNNNNN: the actor as a Hugging Face folder that
// transformers opens unchanged, the critic, the optimisers, the state, the configuration
// and the files of the method. The folder is complete or absent.
//
// All ranks call SaveCheckpoint, and rank 0 writes.
func (t *Trainer) SaveCheckpoint(ctx context.Context) error {
	err := t.onWriter(ctx, func() error { return t.save(ctx) }, func() error {
		return t.Engine.Exclusive(ctx, func() error { return t.fill(ctx, "") })
	})
	if err == nil {
		t.unsaved = false
	} else if t.Ranks.Broken() {
		err = fmt.Errorf("save checkpoint of step %d: %w", t.state.Step, err)
	}
	return err
}

// onWriter calls write on rank 0. If the weights are sharded over the ranks, the other ranks call help, which send their shards.
func (c *core) onWriter(ctx context.Context, write, help func() error) error {
	if !c.sharded() {
		return c.Ranks.OnFirst(ctx, write)
	}
	return c.Ranks.Each(ctx, func() error {
		f := help
		if c.Ranks.First() {
			f = write
		}
		err := f()
		if err != nil { // the other ranks may wait for this one
			c.Ranks.Break()
		}
		return err
	})
}

// sharded reports whether the weights or their optimiser state are sharded over the ranks.
func (c *core) sharded() bool { return c.Actor.Master().Sharded().Level != shard.None }

// save writes the checkpoint on this rank.
func (t *Trainer) save(ctx context.Context) error {
	offset, err := t.Sink.Offset()
	if err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	t.state.MetricsOffset = offset
	m := Metrics{}
	var also []int
	if b := t.state.Best; b != nil {
		also = append(also, b.Step)
	}
	err = t.phase(t.state.Step, "save_checkpoint", 0, m, func() error {
		return t.Engine.Exclusive(ctx, func() error {
			return checkpoint.Save(ctx, t.Run.Checkpoints(), t.state.Step, t.o.Keep, func(dir string) error {
				if err := t.fill(ctx, dir); err != nil {
					return err
				}
				return t.writeRest(dir)
			}, also...)
		})
	})
	if err == nil {
		err = checkpoint.Link(t.Run.Checkpoints(), t.state.Step, t.Run.Latest())
	}
	if err == nil && t.state.Best != nil {
		err = checkpoint.Link(t.Run.Checkpoints(), t.state.Best.Step, t.Run.Best())
	}
	if err != nil {
		return fmt.Errorf("save checkpoint of step %d: %w", t.state.Step, err)
	}
	t.unsaved = false
	t.saving = m[track.TimingSave]
	t.Log.Info("checkpoint saved", "step", t.state.Step, "seconds", m[track.TimingSave])
	return nil
}

// fill writes the actor, the critic and their optimisers. If they are sharded, all ranks call fill; dir is of rank 0.
func (t *Trainer) fill(ctx context.Context, dir string) error {
	atActor.Pass()
	if err := t.Save(ctx, filepath.Join(dir, rundir.ActorFolder)); err != nil {
		return err
	}
	if t.Critic != nil {
		if !t.Critic.Shared() {
			if err := t.SaveCritic(ctx, filepath.Join(dir, learner.CriticFolder)); err != nil {
				return err
			}
		}
		if err := t.Critic.Save(ctx, dir); err != nil {
			return err
		}
	}
	atOptimizer.Pass()
	return t.Actor.SaveOptimizer(ctx, dir)
}

// writeRest writes the files of the method, the configuration and the state.
func (t *Trainer) writeRest(dir string) error {
	if err := t.method.Save(dir); err != nil {
		return err
	}
	config, err := os.ReadFile(t.Run.Config())
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, rundir.ConfigFile), config, 0o644); err != nil {
		return err
	}
	atState.Pass()
	return t.state.Write(dir)
}
