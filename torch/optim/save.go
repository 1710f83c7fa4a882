package optim

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/safetensors"
)

// Suffixes of the parameter's name under which the state is saved, as in torch.
const (
	expAvg   = ".exp_avg"
	expAvgSq = ".exp_avg_sq"
	master   = ".master_weight"
)

const stepKey = "step"

// named is one tensor of the state.
type named struct {
	name string
	t    torch.Tensor
}

func (a *AdamW) named() []named {
	var l []named
	for i, p := range a.params {
		l = append(l, named{p.Name + expAvg, a.state[i].m}, named{p.Name + expAvgSq, a.state[i].v})
		if a.master(i) {
			l = append(l, named{p.Name + master, a.state[i].weight})
		}
	}
	return l
}

func info(t torch.Tensor) safetensors.Info {
	dt := safetensors.F32
	if t.DType() == torch.Float64 {
		dt = safetensors.F64
	}
	return safetensors.NewInfo(dt, t.Shape())
}

// Save writes the state to a safetensors file atomically.
func (a *AdamW) Save(ctx context.Context, path string) error {
	list := a.named()
	specs := make([]safetensors.Spec, len(list))
	for i, n := range list {
		specs[i] = safetensors.Spec{Name: n.name, Info: info(n.t)}
	}
	err := safetensors.WriteFile(path, specs, func(i int) (data []byte, err error) {
		err = torch.Run(ctx, a.t, func(*torch.Scope) error {
			data = list[i].t.ToBytes()
			return nil
		})
		return data, err
	}, safetensors.WriteOptions{Metadata: map[string]string{"format": "pt", stepKey: strconv.Itoa(a.steps)}})
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
	steps, err := a.fits(f)
	if err != nil {
		return fmt.Errorf("load the optimiser from %s: %w", path, err)
	}
	err = torch.Run(ctx, a.t, func(s *torch.Scope) error {
		for _, n := range a.named() {
			_, data, err := f.Tensor(n.name)
			if err != nil {
				return err
			}
			s.Do(func(s *torch.Scope) { n.t.Copy_(s.Bytes(data, n.t.DType(), n.t.Shape()...)) })
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("load the optimiser from %s: %w", path, err)
	}
	a.steps = steps
	return nil
}

// fits checks that the file has exactly this optimiser's tensors and returns its number of steps.
func (a *AdamW) fits(f *safetensors.File) (steps int, err error) {
	text, ok := f.Metadata()[stepKey]
	if steps, err = strconv.Atoi(text); !ok || err != nil || steps < 0 {
		return 0, fmt.Errorf("the metadata key %q is %q, want the number of steps: the file is not the state of an optimiser", stepKey, text)
	}
	names := f.Names()
	list := a.named()
	for _, n := range list {
		got, ok := f.Info(n.name)
		if !ok {
			return 0, fmt.Errorf("no tensor %q: the state belongs to another model", n.name)
		}
		if want := info(n.t); !got.Equal(want) {
			return 0, fmt.Errorf("tensor %q is %s%v, want %s%v: the state belongs to another model", n.name, got.DType, got.Shape, want.DType, want.Shape)
		}
	}
	if len(names) != len(list) {
		i := slices.IndexFunc(names, func(s string) bool {
			return !slices.ContainsFunc(list, func(n named) bool { return n.name == s })
		})
		return 0, fmt.Errorf("tensor %q has no parameter: the state belongs to another model", names[i])
	}
	return steps, nil
}
