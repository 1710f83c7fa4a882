package optim

import (
	"context"
	"fmt"
	"strconv"

	"github.com/openmanus/openmanus/torch/safetensors"
	"github.com/openmanus/openmanus/torch/store"
)

// Suffixes of the names under which the state of a parameter is saved, as in torch.optim.
const (
	expAvg   = ".exp_avg"
	expAvgSq = ".exp_avg_sq"
	master   = ".master_weight"
)

const stepKey = "step"

// tensors lists the state tensors under their names in a file.
func (a *AdamW) tensors() []store.Param {
	var l []store.Param
	for i, p := range a.params {
		l = append(l, store.Param{Name: p.Name + expAvg, Tensor: a.state[i].m}, store.Param{Name: p.Name + expAvgSq, Tensor: a.state[i].v})
		if a.master(i) {
			l = append(l, store.Param{Name: p.Name + master, Tensor: a.state[i].weight})
		}
	}
	return l
}

// Save writes the state to a safetensors file atomically. If the optimiser has units, all ranks call Save, and rank 0 writes the
// file, which is the same for any number of ranks.
func (a *AdamW) Save(ctx context.Context, path string) error {
	metadata := map[string]string{stepKey: strconv.Itoa(a.steps)}
	var err error
	if len(a.units) > 0 {
		err = a.saveUnits(ctx, path, metadata)
	} else {
		err = store.Save(ctx, a.t, path, a.tensors(), metadata)
	}
	if err != nil {
		return fmt.Errorf("save the optimiser: %w", err)
	}
	return nil
}

// Load restores the state that Save wrote for the same parameters, bit by bit. The file does not contain the parameters.
// A file for other parameters is an error, and the state stays unchanged.
func (a *AdamW) Load(ctx context.Context, path string) error {
	f, err := safetensors.Open(path)
	if err != nil {
		return fmt.Errorf("load the optimiser: %w", err)
	}
	defer func() { _ = f.Close() }()
	text := f.Metadata()[stepKey]
	steps, err := strconv.Atoi(text)
	if err != nil || steps < 0 {
		return fmt.Errorf("load the optimiser from %s: the metadata key %q is %q, want the number of steps: the file is not the state of an optimiser", path, stepKey, text)
	}
	if len(a.units) > 0 {
		err = a.loadUnits(ctx, f)
	} else {
		err = store.Load(ctx, a.t, f, a.tensors(), false)
	}
	if err != nil {
		return fmt.Errorf("load the optimiser of this model from %s: %w", path, err)
	}
	a.steps = steps
	return nil
}
