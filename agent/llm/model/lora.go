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

// AllLinear stands for every linear layer of the decoder, the output head
// apart, as in PEFT.
const AllLinear = "all-linear"

// LoRA says which linear layers are adapted, and how (torch/nn/lora.go has the
// formula). The names are those of PEFT's LoraConfig.
type LoRA struct {
	Rank    int      // r
	Alpha   float64  // lora_alpha
	Dropout float64  // lora_dropout; of the adapters' inputs, in training only
	Targets []string // target_modules: q_proj, k_proj, …; or AllLinear alone
	RSLoRA  bool     // use_rslora: the scale is alpha / √r instead of alpha / r
	Base    string   // base_model_name_or_path: what the frozen weights were opened from
}

// LoRATargets returns the names of the linear layers that adapters may be on,
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

// appendShort appends the short names of the linear layers that names lacks.
func (d *declaration) appendShort(names []string) []string {
	for _, l := range d.linears {
		if !slices.Contains(names, l.short()) {
			names = append(names, l.short())
		}
	}
	return names
}

// Validate reports what no model can be given.
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

// targets returns the names of Targets in the order of all, which lists the
// layers that can be adapted.
func (o *LoRA) targets(all []string) ([]string, error) {
	if slices.Equal(o.Targets, []string{AllLinear}) {
		return all, nil
	}
	if len(o.Targets) == 0 {
		return nil, fmt.Errorf("no layer is adapted; there are %s, and %s for all", strings.Join(all, ", "), AllLinear)
	}
	for _, t := range o.Targets {
		if !slices.Contains(all, t) {
			return nil, fmt.Errorf("the layer %q cannot be adapted; there are %s, and %s alone for all", clip(t), strings.Join(all, ", "), AllLinear)
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

// adapters are the adapters of one model.
type adapters struct {
	o       LoRA
	targets []string // short names of the adapted layers
	owner   *torch.Owner
	dropout *nn.Dropout
	list    []linear // those that have one, under the checkpoint's names
}

// HasLoRA reports whether the model is frozen weights and adapters on them.
func (m *Model) HasLoRA() bool { return m.lora != nil }

// AddLoRA freezes the weights and puts fresh adapters on them: A uniform in
// ±1/√I, PEFT's Kaiming initialisation, and B zero, so that the model computes
// what it did. The adapters are float32 whatever the weights are (float64 on
// float64): an optimiser's steps are lost in shorter numbers.
func (m *Model) AddLoRA(ctx context.Context, o LoRA, seed uint64) error {
	if m.lora != nil {
		return errors.New("the model has adapters already; merge them first")
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
			out, in := l.l.Weight.Size(0), l.l.Weight.Size(1)
			a.set(i, uniform(s, mix(seed, uint64(i)), 1/math.Sqrt(float64(in)), o.Rank, in), s.Zeros(torch.Float32, out, o.Rank), m.adapterType())
		}
		for _, p := range m.Params() {
			p.Tensor.SetRequiresGrad(false)
		}
		return nil
	})
	if err != nil {
		m.dropLoRA()
		return fmt.Errorf("make the adapters: %w", err)
	}
	return nil
}

// newAdapters declares adapters on the linear layers that o selects.
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
	m.lora = a
	return a, nil
}

// set gives adapter i its matrices.
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
	r := rand.New(rand.NewPCG(seed, 0x6c6f7261)) // any constant: the stream of adapters
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

// Adapters returns the adapters' matrices under PEFT's names, always in the
// same order; none without adapters.
func (m *Model) Adapters() []Param {
	if m.lora == nil {
		return nil
	}
	var list []Param
	for _, l := range m.lora.list {
		name := peftPrefix + l.name
		list = append(list, Param{name + peftA, l.l.LoRA.A}, Param{name + peftB, l.l.LoRA.B})
	}
	return list
}

// Trained returns what training changes: the adapters, or without them every
// parameter.
func (m *Model) Trained() []Param {
	if m.lora != nil {
		return m.Adapters()
	}
	return m.Params()
}

// SetDropout switches the dropout of the adapters for the forward passes to
// come; passes of the same key drop the same. It is off at first.
func (m *Model) SetDropout(on bool, key uint64) {
	if m.lora != nil {
		m.lora.dropout.On, m.lora.dropout.Key = on, key
	}
}

// Dropout returns the share of the adapters' inputs that training drops.
func (m *Model) Dropout() float64 {
	if m.lora == nil {
		return 0
	}
	return m.lora.o.Dropout
}

// Base returns the model without its adapters: the same weights, not a copy.
// It must not be used after m is closed; its own Close frees nothing.
func (m *Model) Base() *Model {
	base, err := newDecoder(m.Config)
	if err != nil {
		panic("model: " + err.Error()) // m was made from the same configuration
	}
	base.thread, base.dtype, base.checkpointing = m.thread, m.dtype, m.checkpointing
	for i, w := range m.declared.weights {
		*base.declared.weights[i].field = *w.field
	}
	base.tie()
	return base
}

// Frozen returns the model with adapters that are copies of what m's are now,
// on the same weights. Like Base it must not outlive m; Close frees the copies.
func (m *Model) Frozen(ctx context.Context) (*Model, error) {
	if m.lora == nil {
		return nil, errors.New("the model has no adapters to copy")
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

// Merge adds what the adapters do to the weights and takes them off.
func (m *Model) Merge(ctx context.Context) error {
	if m.lora == nil {
		return nil
	}
	for _, l := range m.lora.list {
		err := torch.Run(ctx, m.thread, func(s *torch.Scope) error {
			s.NoGrad(func() { l.l.Weight.Copy_(mergedWeight(l.l)) })
			return nil
		})
		if err != nil {
			return fmt.Errorf("merge the adapter of %s: %w", l.name, err)
		}
	}
	m.dropLoRA()
	return nil
}

// mergedWeight is the weight with the adapter's share added, in the adapter's
// type.
func mergedWeight(l *nn.Linear) torch.Tensor {
	delta := l.LoRA.Delta()
	return l.Weight.To(delta.DType()).Add(delta)
}

// merged returns the parameter as it is in the model that Merge would make.
func (m *Model) merged(p Param) torch.Tensor {
	if m.lora != nil {
		for _, l := range m.lora.list {
			if l.name+".weight" == p.Name {
				return mergedWeight(l.l)
			}
		}
	}
	return p.Tensor
}
