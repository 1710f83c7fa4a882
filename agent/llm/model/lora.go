package model

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/nn"
)

// AllLinear selects every linear layer of the decoder except the output head, as
// in PEFT.
const AllLinear = "all-linear"

// LoRA configures adapters (torch/nn/lora.go has the formula). The comments name
// the fields of PEFT's LoraConfig.
type LoRA struct {
	Rank    int      // r
	Alpha   float64  // lora_alpha
	Dropout float64  // lora_dropout, on the adapters' inputs in training
	Targets []string // target_modules: q_proj, k_proj, …; or AllLinear alone
	RSLoRA  bool     // use_rslora: the scale is alpha / √r instead of alpha / r
	Base    string   // base_model_name_or_path: the path of the frozen weights
}

// LoRATargets returns the names of the linear layers that can have adapters
// in any family.
func LoRATargets() []string {
	var names []string
	for _, modelType := range ModelTypes() {
		f, _ := families.Lookup(modelType)
		c, d := Config{ModelType: modelType, Extra: f.newExtra()}, declaration{}
		d.add(f.block(&c, 0), "", "")
		names = d.appendShort(names)
	}
	return names
}

// appendShort adds to names the short name of every linear layer, without duplicates.
func (d *declaration) appendShort(names []string) []string {
	for _, l := range d.linears {
		if !slices.Contains(names, l.short()) {
			names = append(names, l.short())
		}
	}
	return names
}

// Validate reports every field that is invalid for all models.
func (o *LoRA) Validate() error {
	var errs []error
	if o.Rank < 1 {
		errs = append(errs, fmt.Errorf("the rank %d of the adapters must be at least 1", o.Rank))
	}
	if !(o.Alpha > 0) || math.IsInf(o.Alpha, 0) {
		errs = append(errs, fmt.Errorf("the alpha %v of the adapters must be above 0", o.Alpha))
	}
	if !(o.Dropout >= 0 && o.Dropout < 1) {
		errs = append(errs, fmt.Errorf("the dropout %v of the adapters must be at least 0 and below 1", o.Dropout))
	}
	if _, err := o.targets(LoRATargets()); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// targets returns the names of the layers that o.Targets selects. The argument all
// lists the layers that can be adapted and determines the order.
func (o *LoRA) targets(all []string) ([]string, error) {
	if slices.Equal(o.Targets, []string{AllLinear}) {
		return all, nil
	}
	if len(o.Targets) == 0 {
		return nil, fmt.Errorf("no target modules; use some of %s, or %s", strings.Join(all, ", "), AllLinear)
	}
	for _, t := range o.Targets {
		if !slices.Contains(all, t) {
			return nil, fmt.Errorf("unknown target module %.80q; use some of %s, or %s alone", t, strings.Join(all, ", "), AllLinear)
		}
	}
	return slices.DeleteFunc(all, func(name string) bool { return !slices.Contains(o.Targets, name) }), nil
}

func (o *LoRA) scale() float64 {
	if o.RSLoRA {
		return o.Alpha / math.Sqrt(float64(o.Rank))
	}
	return o.Alpha / float64(o.Rank)
}

// adapters holds the adapters of one model.
type adapters struct {
	o       LoRA
	targets []string // short names of the adapted layers
	owner   *torch.Owner
	dropout *nn.Dropout
	list    []linear // the adapted layers
}

// HasLoRA reports whether the model consists of frozen weights and adapters.
func (m *Model) HasLoRA() bool { return m.lora != nil }

// AddLoRA freezes the weights and adds new adapters: A is uniform in ±1/√I,
// PEFT's Kaiming initialisation, and B is zero, so that the model's output does
// not change. The adapters are float32, or float64 on float64 weights, because
// bfloat16 would round the optimiser's steps away.
func (m *Model) AddLoRA(ctx context.Context, o LoRA, seed uint64) error {
	if err := m.errTensorParallel(); err != nil {
		return fmt.Errorf("make the adapters: %w", err)
	}
	return m.addLoRA(ctx, o, seed)
}

// addLoRA adds adapters; see AddLoRA. In a tensor-parallel model they get their values from a file.
func (m *Model) addLoRA(ctx context.Context, o LoRA, seed uint64) error {
	if m.lora != nil {
		return errors.New("the model already has adapters; merge them first")
	}
	if m.sharded != nil {
		return errors.New("the model is sharded; make the adapters before Shard")
	}
	if err := o.Validate(); err != nil {
		return err
	}
	a, err := m.newAdapters(o)
	if err != nil {
		return err
	}
	err = torch.Run(ctx, m.thread, func(s *torch.Scope) error {
		for i, l := range a.list {
			out, in := l.l.Out, l.l.In
			a.set(i, uniform(s, mix(seed, uint64(i)), 1/math.Sqrt(float64(in)), o.Rank, in), s.Zeros(torch.Float32, out, o.Rank), m.adapterType())
		}
		for _, p := range m.Params() {
			if !p.Tensor.None() { // otherwise the model is deferred
				p.Tensor.SetRequiresGrad(false)
			}
		}
		return nil
	})
	if err != nil {
		m.dropLoRA()
		return fmt.Errorf("make the adapters: %w", err)
	}
	return nil
}

// newAdapters declares adapters on the linear layers that o.Targets selects.
func (m *Model) newAdapters(o LoRA) (*adapters, error) {
	targets, err := o.targets(m.declared.appendShort(nil))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Config.ModelType, err)
	}
	a := &adapters{o: o, targets: targets, owner: torch.NewOwner(m.thread, "lora"), dropout: &nn.Dropout{P: o.Dropout}}
	for _, l := range m.declared.linears {
		if slices.Contains(targets, l.short()) {
			a.list = append(a.list, l)
		}
	}
	if m.tp != nil {
		m.tp.addAdapters(a.list, o.Rank)
	}
	m.lora = a
	return a, nil
}

// set assigns the matrices of adapter i.
func (a *adapters) set(i int, down, up torch.Tensor, dt torch.DType) {
	l := &nn.LoRA{A: down.To(dt), B: up.To(dt), Scale: a.o.scale(), Dropout: a.dropout, Index: uint64(i)}
	a.owner.Own(l.A, l.B)
	a.list[i].l.LoRA = l
}

func (m *Model) adapterType() torch.DType {
	if m.dtype == torch.Float64 {
		return torch.Float64
	}
	return torch.Float32
}

func uniform(s *torch.Scope, seed uint64, limit float64, shape ...int) torch.Tensor {
	r := rand.New(rand.NewPCG(seed, 0x6c6f7261)) // an arbitrary constant selects the random stream of the adapters
	v := make([]float32, shape[0]*shape[1])
	for i := range v {
		v[i] = float32(limit * (2*r.Float64() - 1))
	}
	return s.Float32s(v, shape...)
}

// dropLoRA frees the adapters.
func (m *Model) dropLoRA() {
	for _, l := range m.lora.list {
		l.l.LoRA = nil
	}
	m.lora.owner.Close()
	m.lora = nil
}

// Adapters returns the adapters' matrices under their PEFT names, in a fixed order.
func (m *Model) Adapters() []Param {
	if m.lora == nil {
		return nil
	}
	var list []Param
	for _, l := range m.lora.list {
		name := peftPrefix + l.name
		list = append(list, Param{Name: name + peftA, Tensor: l.l.LoRA.A}, Param{Name: name + peftB, Tensor: l.l.LoRA.B})
	}
	return list
}

// Trained returns the trainable parameters: the adapters, or without adapters
// all parameters.
func (m *Model) Trained() []Param {
	if m.lora != nil {
		return m.Adapters()
	}
	return m.Params()
}

// SetDropout sets the dropout of the adapters in later forward passes, which must have
// these offsets. Sequences with the same key drop the same inputs, whatever is packed
// with them. Nil keys switch dropout off; it is off at first.
func (m *Model) SetDropout(keys []uint64, offsets []int) {
	if m.lora != nil {
		m.lora.dropout.Keys, m.lora.dropout.Offsets = keys, offsets
	}
}

// Dropout returns the probability with which training drops adapter inputs.
func (m *Model) Dropout() float64 {
	if m.lora == nil {
		return 0
	}
	return m.lora.o.Dropout
}

// Base returns a view of the model without adapters. It shares the weights, so it
// must not be used after m is closed; Close of the view frees nothing.
func (m *Model) Base() *Model {
	if err := m.errTensorParallel(); err != nil {
		panic("model: " + err.Error())
	}
	base, err := newDecoder(m.Config)
	if err != nil {
		panic("model: " + err.Error()) // cannot happen: m was made from the same configuration
	}
	base.thread, base.dtype, base.checkpointing = m.thread, m.dtype, m.checkpointing
	if m.weightsSharded() {
		base.unbind = base.bind(m.sharded)
		return base
	}
	for i, w := range m.declared.weights {
		*base.declared.weights[i].field = *w.field
	}
	base.tie()
	return base
}

// Frozen returns a view of the model with copies of the current adapters. It
// shares the weights, so it must not be used after m is closed; Close of the
// view frees the copies.
func (m *Model) Frozen(ctx context.Context) (*Model, error) {
	if m.lora == nil {
		return nil, errors.New("the model has no adapters to copy")
	}
	if err := m.errTensorParallel(); err != nil {
		return nil, fmt.Errorf("copy the adapters: %w", err)
	}
	f := m.Base()
	a, err := f.newAdapters(m.lora.o)
	if err != nil {
		return nil, err
	}
	err = torch.Run(ctx, m.thread, func(*torch.Scope) error {
		for i, l := range m.lora.list {
			a.set(i, l.l.LoRA.A.Detach().Clone(), l.l.LoRA.B.Detach().Clone(), m.adapterType())
		}
		return nil
	})
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("copy the adapters: %w", err)
	}
	return f, nil
}

// Merge adds the adapters to the weights and removes them.
func (m *Model) Merge(ctx context.Context) error {
	if m.lora == nil {
		return nil
	}
	if m.sharded != nil {
		return errors.New("the adapters of a sharded model cannot be merged into it")
	}
	if m.deferred != nil {
		m.deferMerge()
		return nil
	}
	for _, l := range m.lora.list {
		err := torch.Run(ctx, m.thread, func(s *torch.Scope) error {
			s.NoGrad(func() { l.l.Weight.Copy_(mergedWeight(l.l.Weight, l.l.LoRA)) })
			return nil
		})
		if err != nil {
			return fmt.Errorf("merge the adapter of %s: %w", l.name, err)
		}
	}
	m.dropLoRA()
	return nil
}

// mergedWeight returns the weight plus its adapter's update, in the adapter's
// dtype.
func mergedWeight(weight torch.Tensor, l *nn.LoRA) torch.Tensor {
	delta := l.Delta()
	return weight.To(delta.DType()).Add(delta)
}

// merged returns the value that declared weight i has after Merge, without history.
func (m *Model) merged(s *torch.Scope, i int) torch.Tensor {
	v := m.value(s, i)
	if m.lora != nil {
		for _, l := range m.lora.list {
			if l.name+".weight" == m.declared.weights[i].name {
				return mergedWeight(v, l.l.LoRA)
			}
		}
	}
	return v
}
