package shard

import (
	"context"
	"fmt"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
)

// Options describe how parameters are sharded.
type Options struct {
	Group *dist.Group
	Level Level
	// Compute is the type of the gathered weights. Trained weights of another type stay in that type as masters, of which each
	// rank has its shard.
	Compute torch.DType
	// Frozen means that the weights are never trained: they have no gradients and no masters, and only level Weights
	// shards them.
	Frozen bool
}

// Param is a parameter of a unit.
type Param struct {
	Name   string
	Fields []*torch.Tensor // places that hold the tensor; they hold the zero Tensor while the weights are released
}

// alignment is the alignment of parameters in the flat tensor, in elements, for the vector loads of kernels.
const alignment = 32

// Unit is a list of parameters that are gathered and released together.
type Unit struct {
	o     Options
	name  string
	owner *torch.Owner

	params []param
	size   int // number of elements of the flat tensor
	length int // number of elements of a shard

	users  int            // calls of Gather without Release
	flat   torch.Tensor   // [size] gathered weights; the zero Tensor if released
	views  []torch.Tensor // the parameters in flat
	shard  torch.Tensor   // [length] this rank's shard of the weights in the compute type
	master torch.Tensor   // [length] shard that the optimiser updates: the field shard, or its float32 master

	trains bool
	full   []torch.Tensor // sum of each parameter's gradients over micro-batches in the master's type; only level Optimizer
	grads  torch.Tensor   // [length] gradients of the shard, summed over ranks; the zero Tensor before SumGrads
}

// param is a parameter with its place in the flat tensor.
type param struct {
	Param
	shape    []int
	start, n int
	held     bool // this rank has contributed a gradient since the last step
}

// New shards the tensors that the fields of params hold now, and sets the fields to the new weights, or to the zero Tensor if the level
// is Weights. The caller frees the old tensors.
func New(t *torch.Thread, s *torch.Scope, name string, params []Param, o Options) *Unit {
	u := &Unit{o: o, name: name, owner: torch.NewOwner(t, "shard of "+name)}
	from := o.Compute
	for _, p := range params {
		w := *p.Fields[0]
		u.params = append(u.params, param{Param: p, shape: w.Shape(), start: u.size, n: w.Numel()})
		u.size += (w.Numel() + alignment - 1) / alignment * alignment
		from = w.DType()
	}
	ranks := o.Group.Size()
	u.length = (u.size + ranks*alignment - 1) / (ranks * alignment) * alignment
	u.size = u.length * ranks
	s.Do(func(s *torch.Scope) {
		s.NoGrad(func() {
			whole := make([]torch.Tensor, len(params))
			for i, p := range params {
				whole[i] = (*p.Fields[0]).Detach()
			}
			if u.resident() {
				flat := s.Zeros(o.Compute, u.size)
				for i, p := range u.params {
					flat.Narrow(0, p.start, p.n).Copy_(whole[i].Reshape(p.n))
				}
				u.shard = flat.Narrow(0, o.Group.Rank()*u.length, u.length)
				u.point(flat)
			} else {
				u.shard = s.Zeros(o.Compute, u.length)
				for i := range u.params {
					u.Put(u.shard, i, whole[i])
				}
				for _, p := range u.params {
					p.set(torch.Tensor{})
				}
			}
			u.owner.Own(u.shard)
			if u.master = u.shard; from != o.Compute && !o.Frozen {
				u.master = s.Zeros(from, u.length)
				for i := range u.params {
					u.Put(u.master, i, whole[i])
				}
				u.owner.Own(u.master)
			}
		})
	})
	return u
}

// resident reports whether the weights are always gathered.
func (u *Unit) resident() bool { return u.o.Level < Weights }

func (p *param) set(t torch.Tensor) {
	for _, f := range p.Fields {
		*f = t
	}
}

// point makes the fields views of flat.
func (u *Unit) point(flat torch.Tensor) {
	u.flat = flat
	u.owner.Own(flat)
	for i := range u.params {
		p := &u.params[i]
		v := flat.Narrow(0, p.start, p.n).View(p.shape...).Detach()
		v.SetRequiresGrad(u.trains)
		u.owner.Own(v)
		u.views = append(u.views, v)
		p.set(v)
	}
}

// Bind adds places that hold the parameters, in their order. The function that it returns removes them.
func (u *Unit) Bind(fields []*torch.Tensor) (unbind func()) {
	for i := range u.params {
		p := &u.params[i]
		p.Fields = append(p.Fields, fields[i])
		*fields[i] = torch.Tensor{}
		if !u.flat.None() {
			*fields[i] = u.views[i]
		}
	}
	return func() {
		for i := range u.params {
			p := &u.params[i]
			var rest []*torch.Tensor
			for _, f := range p.Fields {
				if f != fields[i] {
					rest = append(rest, f)
				}
			}
			p.Fields = rest
		}
	}
}

// SetTrainable switches the gradients of the parameters on or off.
func (u *Unit) SetTrainable(on bool) {
	u.trains = on && !u.o.Frozen
	for _, v := range u.views {
		v.SetRequiresGrad(u.trains)
	}
}

// Trains reports whether the parameters have gradients.
func (u *Unit) Trains() bool { return u.trains }

// Gather makes the fields hold the weights until Release. The first of nested calls is a collective if the level is Weights.
func (u *Unit) Gather(s *torch.Scope) {
	if u.flat.None() {
		s.Do(func(s *torch.Scope) { // frees the handles of views, which would keep the memory after Release
			s.NoGrad(func() {
				flat := s.Empty(u.o.Compute, u.size)
				u.must("Gather", u.o.Group.AllGather(context.Background(), flat, u.shard))
				u.point(flat)
			})
		})
	}
	u.users++
}

// Release undoes a call of Gather. If the level is Weights, the last call frees the weights.
func (u *Unit) Release() {
	u.users--
	if u.users > 0 || u.resident() {
		return
	}
	for i := range u.params {
		u.params[i].set(torch.Tensor{})
	}
	u.owner.Release(append(u.views, u.flat)...)
	u.views, u.flat = nil, torch.Tensor{}
}

// Gathered reports whether the fields hold the weights.
func (u *Unit) Gathered() bool { return !u.flat.None() }

// Refresh updates the weights after a change of the masters. It is a collective if weights are gathered.
func (u *Unit) Refresh(s *torch.Scope) {
	s.Do(func(s *torch.Scope) {
		s.NoGrad(func() {
			if u.master != u.shard {
				u.shard.Copy_(u.master)
			}
			if !u.flat.None() {
				u.must("Refresh", u.o.Group.AllGather(context.Background(), u.flat, u.shard))
			}
		})
	})
}

// To moves the shard to a device. The unit must be frozen and released.
func (u *Unit) To(s *torch.Scope, d torch.Device) {
	if !u.o.Frozen || !u.flat.None() {
		panic("shard: To moves only the shards of frozen weights that are released")
	}
	u.owner.To(s, d, &u.shard)
	u.master = u.shard
}

// Bytes returns the size in bytes of the weights and masters that this rank holds now.
func (u *Unit) Bytes() int {
	n := 0
	switch {
	case !u.flat.None() && u.resident():
		n = u.size * u.o.Compute.Size()
	case !u.flat.None():
		n = (u.size + u.length) * u.o.Compute.Size()
	default:
		n = u.length * u.o.Compute.Size()
	}
	if u.master != u.shard {
		n += u.length * u.master.DType().Size()
	}
	return n
}

// Close frees the tensors.
func (u *Unit) Close() { u.owner.Close() }

// must ends the function that torch.Run is running if a collective has failed.
func (u *Unit) must(op string, err error) {
	if err != nil {
		torch.FailWith(op, fmt.Errorf("shards of %s: %w", u.name, err))
	}
}
