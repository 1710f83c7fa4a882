package optim

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/safetensors"
	"github.com/openmanus/openmanus/torch/shard"
	"github.com/openmanus/openmanus/torch/store"
)

// moments is the optimiser state of this rank's shard of a unit.
type moments struct{ m, v torch.Tensor }

// updateUnits updates this rank's shards of the parameters that have a gradient on some rank, and then the weights of all ranks.
func (a *AdamW) updateUnits(s *torch.Scope, held []bool, lr, scale float64) {
	var w, g, m, v []torch.Tensor
	at := len(a.params)
	for k, u := range a.units {
		for i := range u.Len() {
			own := u.Segment(u.Master(), i)
			if held[at] && !own.None() {
				w, g = append(w, own), append(g, u.Segment(u.Grads(), i))
				m, v = append(m, u.Segment(a.shards[k].m, i)), append(v, u.Segment(a.shards[k].v, i))
			}
			at++
		}
	}
	torch.AdamWStep(w, g, m, v, nil, torch.AdamWOptions{
		LR: lr, Beta1: a.o.Beta1, Beta2: a.o.Beta2, Eps: a.o.Eps, WeightDecay: a.o.WeightDecay, Step: a.steps, GradScale: scale,
	})
	for _, u := range a.units {
		u.Refresh(s)
	}
}

// moment names a state tensor of a parameter of a unit.
type moment struct {
	name string
	u    *shard.Unit
	i    int
	of   torch.Tensor // shard of the unit
}

func (a *AdamW) unitMoments() []moment {
	var list []moment
	for k, u := range a.units {
		for i := range u.Len() {
			list = append(list, moment{u.Name(i) + expAvg, u, i, a.shards[k].m}, moment{u.Name(i) + expAvgSq, u, i, a.shards[k].v})
		}
	}
	return list
}

// saveUnits writes the state of an optimiser with units. All ranks call it; rank 0 writes the file, which it gathers tensor by tensor.
func (a *AdamW) saveUnits(ctx context.Context, path string, metadata map[string]string) error {
	plain, sharded := a.tensors(), a.unitMoments()
	var specs []safetensors.Spec
	add := func(name string, dt torch.DType, shape []int) error {
		spec, err := store.Spec(name, dt, shape)
		specs = append(specs, spec)
		return err
	}
	var errs []error
	for _, p := range plain {
		errs = append(errs, add(p.Name, p.Tensor.DType(), p.Tensor.Shape()))
	}
	for _, x := range sharded {
		errs = append(errs, add(x.name, x.of.DType(), x.u.Shape(x.i)))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fetch := func(i int, w io.Writer) error {
		return torch.Run(ctx, a.t, func(s *torch.Scope) (err error) {
			s.NoGrad(func() {
				var whole torch.Tensor
				if i < len(plain) {
					whole = plain[i].Tensor
				} else {
					x := sharded[i-len(plain)]
					whole = x.u.Whole(s, x.of, x.i)
				}
				err = whole.WriteBytes(w)
			})
			return err
		})
	}
	metadata["format"] = "pt"
	return a.units[0].Write(len(specs), fetch, func() error {
		return safetensors.WriteFile(path, specs, fetch, safetensors.WriteOptions{Metadata: metadata})
	})
}

// loadUnits reads the state of an optimiser with units. Each rank reads its shards.
func (a *AdamW) loadUnits(ctx context.Context, f *safetensors.File) error {
	plain, sharded := a.tensors(), a.unitMoments()
	var want []safetensors.Spec
	for _, p := range plain {
		spec, err := store.Spec(p.Name, p.Tensor.DType(), p.Tensor.Shape())
		if err != nil {
			return err
		}
		want = append(want, spec)
	}
	for _, x := range sharded {
		spec, err := store.Spec(x.name, x.of.DType(), x.u.Shape(x.i))
		if err != nil {
			return err
		}
		want = append(want, spec)
	}
	if err := safetensors.Fit(f, want, nil); err != nil {
		return err
	}
	return torch.Run(ctx, a.t, func(s *torch.Scope) (err error) {
		s.NoGrad(func() {
			for _, p := range plain {
				s.Do(func(s *torch.Scope) {
					var v torch.Tensor
					if v, err = store.Read(s, f, p.Name); err == nil {
						p.Tensor.Copy_(v)
					}
				})
				if err != nil {
					return
				}
			}
			for _, x := range sharded {
				first, n := x.u.Range(x.i)
				if n == 0 {
					continue
				}
				var data []byte
				if _, data, err = f.Tensor(x.name); err != nil {
					err = fmt.Errorf("tensor %s: %w", x.name, err)
					return
				}
				s.Do(func(s *torch.Scope) {
					size := x.of.DType().Size()
					x.u.Segment(x.of, x.i).Copy_(s.Bytes(data[first*size:(first+n)*size], x.of.DType(), n))
				})
			}
		})
		return err
	})
}
