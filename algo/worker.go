package algo

// Workers are ranks that only play (ranks.Ranks.AssignWorkers). They take part in the loop like the other ranks, with the method Worker, which
// leaves out the update: all ranks draw the same tasks, the workers play them and send the episodes to all ranks, the trainers
// make the update, and rank 0 sends the new weights to the workers.

import (
	"context"
	"errors"

	"github.com/openmanus/openmanus/torch/dist"
)

// Worker is the method of a rank that only plays.
type Worker struct{}

type worker struct{ player }

func (Worker) open(c *core) (Method, error) {
	c.o.OffloadRef, c.o.OffloadOptimizer, c.o.OffloadCritic = false, false, false
	p, err := newPlayer(c)
	return &worker{p}, err
}

// Learn does nothing: publish waits for the trainers and receives their weights.
func (*worker) Learn(context.Context, int, Batch, Metrics) error { return nil }

// publish makes an update with learn and sends the weights from rank 0 to the workers, if there are any. Every rank calls it; publish
// returns an error if an update or the transfer failed.
func (c *core) publish(ctx context.Context, learn func() error) (err error) {
	if c.Ranks.Workers() == 0 {
		return learn()
	}
	version, err := c.Ranks.AfterUpdate(ctx, func() (int64, error) {
		err := learn()
		return c.state.WeightVersion, err
	})
	if err != nil || version == c.published {
		return err
	}
	c.published = version
	if c.Ranks.Trains() {
		release, gatherErr := c.wholeWeights(ctx)
		if gatherErr != nil {
			return gatherErr
		}
		defer func() { err = errors.Join(err, release()) }()
	}
	return c.Ranks.Update(func(g *dist.Group) error {
		if c.Ranks.Trains() {
			return c.Actor.Broadcast(ctx, g)
		}
		return c.Engine.ChangeWeights(ctx, func() error {
			err := c.Actor.Broadcast(ctx, g)
			c.state.WeightVersion = version
			if c.Updated != nil {
				c.Updated(version)
			}
			return err
		})
	})
}
