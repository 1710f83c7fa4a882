package algo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/rundir/checkpoint"
	"github.com/openmanus/openmanus/data/crash"
	"github.com/openmanus/openmanus/torch"
)

// Where dying would hurt most while a checkpoint is filled, and while the
// reference is replaced.
var (
	atActor            = crash.New("checkpoint/actor")     // before the weights
	atOptimizer        = crash.New("checkpoint/optimizer") // before the optimiser
	atState            = crash.New("checkpoint/state")     // before the state
	atReference        = crash.New("reference/write")      // before the reference is written
	atReferenceRemoved = crash.New("reference/removed")    // the old one is gone, the new one has no name yet
)

// SaveCheckpoint writes checkpoints/step_NNNNNN: the actor as a Hugging Face
// folder that transformers opens unchanged, the optimiser, the state and the
// configuration. It is there whole or not at all.
func (t *Trainer) SaveCheckpoint(ctx context.Context) error {
	offset, err := t.sink.Offset()
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
		return t.engine.Exclusive(ctx, func() error {
			return checkpoint.Save(ctx, t.run.Checkpoints(), t.state.Step, t.o.Keep, func(dir string) error {
				atActor.Pass()
				if err := t.save(ctx, filepath.Join(dir, rundir.ActorFolder)); err != nil {
					return err
				}
				if t.critic != nil {
					if !t.critic.Shared() {
						if err := t.saveC(ctx, filepath.Join(dir, learner.CriticFolder)); err != nil {
							return err
						}
					}
					if err := t.critic.Save(ctx, dir); err != nil {
						return err
					}
				}
				if err := t.saveKept(dir); err != nil {
					return err
				}
				return writeRest(ctx, dir, t.actor, t.state, t.run)
			}, also...)
		})
	})
	if err == nil {
		err = checkpoint.Link(t.run.Checkpoints(), t.state.Step, t.run.Latest())
	}
	if err == nil && t.state.Best != nil {
		err = checkpoint.Link(t.run.Checkpoints(), t.state.Best.Step, t.run.Best())
	}
	if err != nil {
		return fmt.Errorf("save checkpoint of step %d: %w", t.state.Step, err)
	}
	t.unsaved = false
	t.saving = m["timing_s/save_checkpoint"]
	t.log.Info("checkpoint saved", "step", t.state.Step, "seconds", m["timing_s/save_checkpoint"])
	return nil
}

// writeRest writes what a checkpoint holds besides the actor's folder.
func writeRest(ctx context.Context, dir string, a *learner.Actor, st rundir.State, run *rundir.Folder) error {
	atOptimizer.Pass()
	if err := a.SaveOptimizer(ctx, dir); err != nil {
		return err
	}
	config, err := os.ReadFile(run.Config())
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, rundir.ConfigFile), config, 0o644); err != nil {
		return err
	}
	atState.Pass()
	return st.Write(dir)
}

// freezeReference makes the weights after the warm start the reference of the
// KL loss and keeps them in the run folder, where a resumed run finds them.
func (t *Trainer) freezeReference(ctx context.Context) error {
	return t.engine.Exclusive(ctx, func() error {
		err := torch.Run(ctx, t.ref.Thread(), func(s *torch.Scope) error {
			t.ref.CopyFrom(s, t.actor.Master())
			return nil
		})
		if err != nil {
			return fmt.Errorf("copy the reference: %w", err)
		}
		tmp := t.run.Reference() + ".tmp"
		if err := os.RemoveAll(tmp); err != nil {
			return err
		}
		atReference.Pass()
		if err := t.save(ctx, tmp); err != nil {
			return err
		}
		if err := os.RemoveAll(t.run.Reference()); err != nil {
			return err
		}
		atReferenceRemoved.Pass()
		return os.Rename(tmp, t.run.Reference())
	})
}
