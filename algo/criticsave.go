package algo

import (
	"context"
	"path/filepath"
)

// Files of a checkpoint that a critic adds: its decoder as a Hugging Face
// folder, unless it is the actor's; the head; the optimiser of what is its own.
const (
	CriticFolder        = "critic"
	headFile            = "value_head.safetensors"
	criticOptimizerFile = "critic_optimizer.safetensors"
	headWeight          = "value_head.weight"
	headBias            = "value_head.bias"
)

// save writes the head and the optimiser of the critic to a checkpoint.
func (c *Critic) save(ctx context.Context, dir string) error {
	if err := c.head.save(ctx, filepath.Join(dir, CriticFolder)); err != nil {
		return err
	}
	return c.optimizer().Save(ctx, filepath.Join(dir, criticOptimizerFile))
}

// Load restores the head and the optimiser from a checkpoint; the decoder is
// what the critic was made with.
func (c *Critic) Load(ctx context.Context, dir string) error {
	if err := c.head.load(ctx, filepath.Join(dir, CriticFolder)); err != nil {
		return err
	}
	return c.optimizer().Load(ctx, filepath.Join(dir, criticOptimizerFile))
}
