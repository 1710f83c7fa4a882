package model

// A model whose parameters are sharded over the ranks of a group (torch/shard). The units are the embedding, each layer,
// the last norm, the output head, and the adapters. Forward and Backward gather a unit before they use it and release it afterwards:
//
//	forward    embedding | layer 0 | … | layer L-1 | norm, head: until the end of the pass
//	backward   norm, head: summed and released | layer L-1, recomputed | … | layer 0 | embedding, looked up again
//
// Gathering has an effect only at level shard.Weights, whose passes are collectives: all ranks run the same passes in the same
// order. A failed collective fails the operation.

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/shard"
)

// sharding is the state of a sharded model. Views of the model share it.
type sharding struct {
	o        shard.Options
	units    []*shard.Unit // embedding, layers, norm and, unless it is tied, the head; nil: adapters on whole weights
	at       []place       // of the declared weights
	adapters *shard.Unit   // nil: no adapters
	whole    *int          // calls of GatherWeights without ReleaseWeights, of the model and its views
}

// place is the place of a weight in the units.
type place struct{ unit, i int }

// Shard distributes the parameters over the ranks of o.Group. All ranks have the same parameters; those without adapters may have
// another type than o.Compute, which becomes the model's. A model with adapters has the type o.Compute, and its weights are
// sharded only at level shard.Weights. If the level leaves the weights whole, Shard loads those of a deferred model. Otherwise it reads
// them unit by unit. If Shard fails, the model can only be closed.
//
// At level shard.Weights, backward passes recompute activations. Copies and files of the model need all ranks, which call
// the same methods in the same order; rank 0 writes the files.
func (m *Model) Shard(ctx context.Context, o shard.Options) error {
	switch {
	case o.Level == shard.None || o.Frozen && o.Level != shard.Weights:
		return m.Load(ctx)
	case m.owner == nil || m.sharded != nil || m.tp != nil:
		return errors.New("shard the model: it is a view, or it is sharded or tensor parallel already")
	case o.Compute != m.dtype && (m.lora != nil || o.Frozen):
		return fmt.Errorf("shard the model: the weights are %s, want the compute type %s", m.dtype, o.Compute)
	}
	m.sharded = &sharding{o: o, whole: new(int)}
	if m.lora != nil {
		if err := m.shardAdapters(ctx); err != nil {
			return fmt.Errorf("shard the adapters: %w", err)
		}
		o.Frozen = true
	}
	if m.lora == nil || o.Level == shard.Weights {
		if err := m.shardWeights(ctx, o); err != nil {
			return fmt.Errorf("shard the model: %w", err)
		}
	}
	if err := m.Load(ctx); err != nil { // adapters on whole weights
		return err
	}
	m.dtype = o.Compute
	torch.TrimHost()
	return nil
}

// shardWeights makes a unit of each module of the decoder.
func (m *Model) shardWeights(ctx context.Context, o shard.Options) error {
	sh := m.sharded
	for _, names := range m.unitNames() {
		var params []shard.Param
		var old []torch.Tensor
		for _, w := range m.declared.weights[len(sh.at):][:names.count] {
			if m.deferred != nil {
				if err := m.loadWeight(ctx, len(sh.at)); err != nil {
					return err
				}
			}
			p := shard.Param{Name: w.name, Fields: []*torch.Tensor{w.field}}
			if m.Config.TieWordEmbeddings && w.field == &m.EmbedTokens.Weight {
				p.Fields = append(p.Fields, &m.LMHead.Weight)
			}
			sh.at = append(sh.at, place{len(sh.units), len(params)})
			params, old = append(params, p), append(old, *w.field)
		}
		err := torch.Run(ctx, m.thread, func(s *torch.Scope) error {
			sh.units = append(sh.units, shard.New(m.thread, s, names.name, params, o))
			m.owner.Release(old...)
			return nil
		})
		if err != nil {
			return err
		}
	}
	if m.deferred != nil && m.deferred.failed != nil {
		return m.deferred.failed
	}
	m.endDeferral()
	return nil
}

// unitName is the name of a unit and the number of its weights.
type unitName struct {
	name  string
	count int
}

// unitNames lists the units of the declared weights, which are in the order of the units.
func (m *Model) unitNames() []unitName {
	var list []unitName
	add := func(name string, d declaration) {
		if len(d.weights) > 0 {
			list = append(list, unitName{name, len(d.weights)})
		}
	}
	var d declaration
	d.add(&m.EmbedTokens, "", "")
	add("the embedding", d)
	for i, block := range m.Layers {
		d = declaration{}
		d.add(block, "", "")
		add(fmt.Sprintf("layer %d", i), d)
	}
	d = declaration{}
	d.add(&m.Norm, "", "")
	add("the norm", d)
	count := 0
	for _, u := range list {
		count += u.count
	}
	if rest := len(m.declared.weights) - count; rest > 0 {
		list = append(list, unitName{"the head", rest})
	}
	return list
}

// shardAdapters makes a unit of the adapters, which every rank has whole at all levels.
func (m *Model) shardAdapters(ctx context.Context) error {
	o := m.sharded.o
	o.Level, o.Compute = min(o.Level, shard.Gradients), m.adapterType()
	return torch.Run(ctx, m.thread, func(s *torch.Scope) error {
		var params []shard.Param
		var old []torch.Tensor
		names := m.Adapters()
		for i, l := range m.lora.list {
			for k, field := range []*torch.Tensor{&l.l.LoRA.A, &l.l.LoRA.B} {
				params = append(params, shard.Param{Name: names[2*i+k].Name, Fields: []*torch.Tensor{field}})
				old = append(old, *field)
			}
		}
		m.sharded.adapters = shard.New(m.thread, s, "the adapters", params, o)
		m.lora.owner.Release(old...)
		return nil
	})
}

// Sharded returns how the model is sharded; the zero Options mean that it is not.
func (m *Model) Sharded() shard.Options {
	if m.sharded == nil {
		return shard.Options{}
	}
	return m.sharded.o
}

// TrainedUnits returns the units of the trained parameters of a sharded model.
func (m *Model) TrainedUnits() []*shard.Unit {
	switch {
	case m.sharded == nil || m.sharded.o.Frozen:
		return nil
	case m.sharded.adapters != nil:
		return []*shard.Unit{m.sharded.adapters}
	}
	return m.sharded.units
}

// weightsSharded reports whether the weights themselves are in units.
func (m *Model) weightsSharded() bool { return m.sharded != nil && m.sharded.units != nil }

// Lockstep reports whether passes are collectives.
func (m *Model) Lockstep() bool {
	return m.weightsSharded() && m.sharded.o.Level == shard.Weights && *m.sharded.whole == 0
}

// GatherWeights makes the whole model available on this rank until ReleaseWeights, so that passes are not collectives. All ranks
// call both. They run inside torch.Run.
func (m *Model) GatherWeights(s *torch.Scope) {
	if m.weightsSharded() {
		for _, u := range m.sharded.units {
			u.Gather(s)
		}
		*m.sharded.whole++
	}
}

// ReleaseWeights undoes GatherWeights.
func (m *Model) ReleaseWeights() {
	if m.weightsSharded() {
		for _, u := range m.sharded.units {
			u.Release()
		}
		*m.sharded.whole--
	}
}

// The units of the embedding and of layer i, by index.
const embedding = 0

func layer(i int) int { return 1 + i }

// using calls f while a unit is gathered.
func (m *Model) using(s *torch.Scope, unit int, f func()) {
	if !m.weightsSharded() {
		f()
		return
	}
	u := m.sharded.units[unit]
	u.Gather(s)
	defer u.Release()
	f()
}

// hold gathers a unit until the end of the pass, unless GatherWeights has.
func (m *Model) hold(unit int) {
	if m.weightsSharded() && !m.sharded.units[unit].Gathered() {
		m.sharded.units[unit].Gather(m.scope)
		m.held = append(m.held, unit)
	}
}

// holdNorm gathers the last norm until the end of the pass, which uses scope s.
func (m *Model) holdNorm(s *torch.Scope) {
	m.scope = s
	m.hold(layer(len(m.Layers)))
}

// holdHead gathers the output head, or a classifier's layer score, until the end of the pass.
func (m *Model) holdHead() {
	if m.Config.TieWordEmbeddings && m.Config.Labels == 0 {
		m.hold(embedding)
	} else {
		m.hold(layer(len(m.Layers) + 1))
	}
}

// endPass releases the units that the pass holds.
func (m *Model) endPass() {
	for _, unit := range m.held {
		m.sharded.units[unit].Release()
	}
	m.held, m.scope = nil, nil
}

// sumHeld sums the gradients of the units that the pass holds, and releases them.
func (m *Model) sumHeld(s *torch.Scope) {
	for _, unit := range m.held {
		m.sumLayer(s, unit)
	}
	m.endPass()
}

// SumsLayers reports whether Backward sums the gradients of each layer over the ranks. Passes that record are then collectives.
func (m *Model) SumsLayers() bool {
	return m.weightsSharded() && !m.sharded.o.Frozen && (m.Lockstep() || m.sharded.o.Level == shard.Gradients)
}

// sumLayer sums the gradients of a unit over the ranks if its backward pass is complete. Otherwise TakeGrads sums them.
func (m *Model) sumLayer(s *torch.Scope, unit int) {
	if m.SumsLayers() && m.sharded.units[unit].Trains() {
		m.sharded.units[unit].SumGrads(s)
	}
}

// SumsGrads reports whether TakeGrads is a collective.
func (m *Model) SumsGrads() bool { return m.sharded != nil && m.sharded.o.Level >= shard.Gradients }

// TakeGrads ends a micro-batch of a sharded model. At level shard.Gradients and above, it sums the gradients over the ranks and
// keeps those of this rank's shard. It runs inside torch.Run, after Backward, also on ranks without a micro-batch.
func (m *Model) TakeGrads(ctx context.Context, s *torch.Scope) error {
	units := m.TrainedUnits()
	if units == nil {
		return nil
	}
	if !m.SumsGrads() {
		for _, u := range units {
			u.AccumulateGrads(s)
		}
		return nil
	}
	has := make([]int32, len(units))
	for i, u := range units {
		if u.HasGrads(s) {
			has[i] = 1
		}
	}
	t := s.Int32s(has, len(has))
	if err := m.sharded.o.Group.AllReduce(ctx, t); err != nil {
		return fmt.Errorf("exchange which layers have gradients: %w", err)
	}
	for i, n := range t.ToInt32s() {
		if n > 0 {
			units[i].SumGrads(s)
		}
	}
	return nil
}

// DropGrads drops the gradients of the trained parameters.
func (m *Model) DropGrads() {
	for _, p := range m.Trained() {
		if !p.Tensor.None() {
			p.Tensor.ZeroGrad()
		}
	}
	for _, u := range m.TrainedUnits() {
		u.DropGrads()
	}
}

// value returns declared weight i in the type of the masters, without history. It is a collective if the weights are sharded, or
// deferred after Broadcast.
func (m *Model) value(s *torch.Scope, i int) torch.Tensor {
	if m.deferred != nil {
		v, err := m.readWeight(context.Background(), s, i)
		if err != nil {
			torch.FailWith("value", err)
		}
		return v
	}
	if !m.weightsSharded() {
		return m.declared.weights[i].field.Detach()
	}
	u := m.sharded.units[m.sharded.at[i].unit]
	return u.Whole(s, u.Master(), m.sharded.at[i].i)
}

// setValue overwrites declared weight i. refresh must follow.
func (m *Model) setValue(i int, v torch.Tensor) {
	if !m.weightsSharded() {
		m.declared.weights[i].field.Copy_(v)
		return
	}
	u := m.sharded.units[m.sharded.at[i].unit]
	u.Put(u.Master(), m.sharded.at[i].i, v)
}

// refresh updates the gathered weights after setValue.
func (m *Model) refresh(s *torch.Scope) {
	if m.weightsSharded() {
		for _, u := range m.sharded.units {
			u.Refresh(s)
		}
	}
}

// bind makes the view m of a sharded model share its units. It returns a function that ends the sharing.
func (m *Model) bind(sh *sharding) (unbind func()) {
	m.sharded = &sharding{o: sh.o, units: sh.units, at: sh.at, whole: sh.whole}
	m.sharded.o.Frozen = true
	fields := make([][]*torch.Tensor, len(sh.units))
	for i, w := range m.declared.weights {
		fields[sh.at[i].unit] = append(fields[sh.at[i].unit], w.field)
	}
	var ends []func()
	for k, u := range sh.units {
		ends = append(ends, u.Bind(fields[k]))
	}
	if m.Config.TieWordEmbeddings {
		ends = append(ends, sh.units[embedding].Bind([]*torch.Tensor{&m.LMHead.Weight}))
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// writes reports whether this rank writes the files of the model.
func (m *Model) writes() bool { return m.sharded == nil || m.sharded.o.Group.Rank() == 0 }

// write calls the function write, which fetches n tensors, on the rank that writes files. Other ranks fetch them too if the model is
// sharded.
func (m *Model) write(n int, fetch func(i int, w io.Writer) error, write func() error) error {
	if m.sharded == nil {
		return write()
	}
	return m.sharded.o.Write(n, fetch, write)
}

// Bytes returns the size of the weights, the adapters, and the masters that this rank holds now.
func (m *Model) Bytes() int {
	n := 0
	list := m.Params()
	if m.weightsSharded() {
		list = nil
		for _, u := range m.sharded.units {
			n += u.Bytes()
		}
	}
	if m.sharded != nil && m.sharded.adapters != nil {
		n += m.sharded.adapters.Bytes()
	} else {
		list = append(list, m.Adapters()...)
	}
	for _, p := range list {
		n += p.Tensor.Numel() * p.Tensor.DType().Size()
	}
	return n
}
