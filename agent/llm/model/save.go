package model

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/safetensors"
)

// maxShard splits larger weights into files, as transformers' save_pretrained
// does.
const maxShard = 5 << 30

// SaveWeights writes config.json and the weights in dtype dt, with adapters
// merged, into an existing folder that transformers then opens. Every file
// appears complete or not at all; config.json comes last.
func (m *Model) SaveWeights(ctx context.Context, dir string, dt torch.DType) error {
	stored, err := storedAs(dt)
	if err != nil {
		return fmt.Errorf("save model: %w", err)
	}
	params := map[string]torch.Tensor{}
	var specs []safetensors.Spec
	for _, w := range m.declared.weights {
		params[w.name] = *w.field
		specs = append(specs, safetensors.Spec{Name: w.name, Info: safetensors.NewInfo(stored, w.shape)})
	}
	fetch := func(name string) (data []byte, err error) {
		err = torch.Run(ctx, m.thread, func(s *torch.Scope) error {
			s.NoGrad(func() { data = m.merged(Param{name, params[name]}).To(dt).ToBytes() })
			return nil
		})
		return data, err
	}
	if err := safetensors.WriteFolder(dir, specs, fetch, safetensors.WriteOptions{MaxShardBytes: maxShard}); err != nil {
		return fmt.Errorf("save model: %w", err)
	}
	var config bytes.Buffer
	if err := m.Config.WriteJSON(&config, dt.String()); err != nil {
		return fmt.Errorf("save model: %w", err)
	}
	return writeFile(filepath.Join(dir, "config.json"), config.Bytes())
}

func storedAs(dt torch.DType) (safetensors.DType, error) {
	for s, t := range torchTypes {
		if t == dt {
			return s, nil
		}
	}
	return "", fmt.Errorf("weights cannot be stored as %s", dt)
}

// writeFile writes a file atomically: a temporary file, synced and renamed.
func writeFile(path string, data []byte) (err error) {
	temp := path + ".tmp"
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("save model: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp)
			err = fmt.Errorf("save model: %w", err)
		}
	}()
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(temp, path)
}
