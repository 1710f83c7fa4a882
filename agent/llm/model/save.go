package model

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/safetensors"
	"github.com/openmanus/openmanus/torch/store"
)

// maxShard is the limit in bytes of one weights file, as in transformers'
// save_pretrained.
const maxShard = 5 << 30

// SaveWeights writes config.json and the weights in dtype dt, with adapters
// merged, into an existing folder that transformers then opens. Every file
// appears complete or not at all; config.json comes last. If the model is sharded,
// all ranks call SaveWeights, and rank 0 writes the files, tensor by tensor.
func (m *Model) SaveWeights(ctx context.Context, dir string, dt torch.DType) error {
	if err := m.errTensorParallel(); err != nil {
		return fmt.Errorf("save model: %w", err)
	}
	var specs []safetensors.Spec
	for _, w := range m.declared.weights {
		spec, err := store.Spec(w.name, dt, w.shape)
		if err != nil {
			return fmt.Errorf("save model: %w", err)
		}
		specs = append(specs, spec)
	}
	fetch := func(i int, w io.Writer) error {
		return torch.Run(ctx, m.thread, func(s *torch.Scope) (err error) {
			s.NoGrad(func() { err = m.merged(s, i).To(dt).WriteBytes(w) })
			return err
		})
	}
	err := m.write(len(specs), fetch, func() error {
		return safetensors.WriteFolder(dir, specs, fetch, safetensors.WriteOptions{MaxShardBytes: maxShard})
	})
	if err != nil {
		return fmt.Errorf("save model: %w", err)
	}
	if !m.writes() {
		return nil
	}
	config, err := m.Config.JSON(dt.String())
	if err != nil {
		return fmt.Errorf("save model: %w", err)
	}
	return writeFile(filepath.Join(dir, "config.json"), config)
}

// writeFile writes a file atomically: a temporary file, synced and renamed.
func writeFile(path string, data []byte) error {
	err := safetensors.Replace(path, func(f io.WriterAt) error {
		_, err := f.WriteAt(data, 0)
		return err
	})
	if err != nil {
		return fmt.Errorf("save model: %w", err)
	}
	return nil
}
