package algo

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/safetensors"
)

// Files of a checkpoint that a critic adds: its decoder as a Hugging Face
// folder, the head, the optimiser of both.
const (
	CriticFolder        = "critic"
	headFile            = "value_head.safetensors"
	criticOptimizerFile = "critic_optimizer.safetensors"
	headWeight          = "value_head.weight"
	headBias            = "value_head.bias"
)

// save writes the head and the optimiser of the critic to a checkpoint.
func (c *Critic) save(ctx context.Context, dir string) error {
	if err := c.adamw.Save(ctx, filepath.Join(dir, criticOptimizerFile)); err != nil {
		return err
	}
	fail := func(err error) error { return fmt.Errorf("save the critic's head: %w", err) }
	w, err := safetensors.Create(filepath.Join(dir, CriticFolder, headFile), c.headSpecs(), safetensors.WriteOptions{
		Metadata: map[string]string{"format": "pt"},
	})
	if err != nil {
		return fail(err)
	}
	defer func() { _ = w.Close() }() // removes the temporary file after an error, else does nothing
	for _, p := range c.extra {
		err := torch.Run(ctx, c.master.Thread(), func(*torch.Scope) error { return w.Tensor(p.Name, p.Tensor.Detach().ToBytes()) })
		if err != nil {
			return fail(err)
		}
	}
	if err := w.Commit(); err != nil {
		return fail(err)
	}
	return nil
}

// Load restores the head and the optimiser from a checkpoint; the decoder is
// what the critic was made with.
func (c *Critic) Load(ctx context.Context, dir string) error {
	f, err := safetensors.Open(filepath.Join(dir, CriticFolder, headFile))
	if err != nil {
		return fmt.Errorf("load the critic's head: %w", err)
	}
	defer func() { _ = f.Close() }()
	err = torch.Run(ctx, c.master.Thread(), func(s *torch.Scope) error {
		for i, want := range c.headSpecs() {
			got, data, err := f.Tensor(want.Name)
			if err != nil {
				return err
			}
			if !got.Equal(want.Info) {
				return fmt.Errorf("tensor %q is %s%v, want %s%v: it belongs to another model", want.Name, got.DType, got.Shape, want.Info.DType, want.Info.Shape)
			}
			s.NoGrad(func() {
				t := c.extra[i].Tensor
				t.Copy_(s.Bytes(data, torch.Float32, t.Shape()...))
			})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("load the critic's head from %s: %w", f.Path(), err)
	}
	return c.adamw.Load(ctx, filepath.Join(dir, criticOptimizerFile))
}

func (c *Critic) headSpecs() []safetensors.Spec {
	return []safetensors.Spec{
		{Name: headWeight, Info: safetensors.Info{DType: safetensors.F32, Shape: []int64{1, int64(c.master.Config.HiddenSize)}}},
		{Name: headBias, Info: safetensors.Info{DType: safetensors.F32, Shape: []int64{1}}},
	}
}
