package learner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
	"github.com/openmanus/openmanus/torch/optim"
)

// Actor is the policy. The optimiser updates float32 weights. If the compute type
// differs, a shadow of them in that type serves forward and backward passes and
// generation. With adapters there is no shadow: the weights are frozen in the
// compute type, and only the adapters are float32 and trained.
type Actor struct {
	master       *model.Model
	compute      *model.Model // master itself if it computes in float32 or has adapters
	adamw        *optim.AdamW
	extra        []optim.Param // float32 weights that the optimiser also updates: a critic's head
	sharedHead   []optim.Param // head of a shared critic, which has another optimiser
	inconsistent bool          // the weights may be between two training steps
	follows      bool          // made by NewFollower: adamw is nil

	around func(ctx context.Context, change func() error) error // argument of AroundStep; nil: none

	dropoutSeed uint64
	bad         badSteps
	spoil       func(loss torch.Tensor) torch.Tensor // argument of SpoilLoss
}

// NewActor makes an actor of m and takes ownership of m. The weights of m must be
// float32; NewActor makes a shadow if the compute type differs. A model with
// adapters must be in the compute type. The optimiser also updates the weights in extra.
//
// A sharded model must have the compute type too (model.Model.Shard). It is the master and the
// compute model in one, and the optimiser has the state of this rank's part. All ranks then call the methods
// that save, load, copy or hash weights, and rank 0 writes the files.
func NewActor(ctx context.Context, m *model.Model, compute torch.DType, o optim.AdamWOptions, extra ...optim.Param) (*Actor, error) {
	a := &Actor{master: m, compute: m, extra: extra}
	switch {
	case m.DType() != compute && (m.HasLoRA() || m.TrainedUnits() != nil):
		return nil, fmt.Errorf("the weights of the adapted or sharded model are %s, want the compute type %s", m.DType(), compute)
	case m.DType() != compute:
		shadow, err := m.Shadow(ctx, compute)
		if err != nil {
			return nil, fmt.Errorf("copy the weights to %s: %w", compute, err)
		}
		a.compute = shadow
	}
	err := torch.Run(ctx, m.Thread(), func(*torch.Scope) error {
		a.compute.SetTrainable(true)
		return nil
	})
	if err == nil {
		err = a.ResetOptimizer(ctx, o)
	}
	if err != nil {
		a.closeShadow()
		return nil, err
	}
	return a, nil
}

// NewFollower makes an actor whose weights are those of an actor in another process (Broadcast). It takes ownership of m. It has no
// optimiser: UpdateSFT does nothing, and other updates must not be called.
func NewFollower(m *model.Model) *Actor { return &Actor{master: m, compute: m, follows: true} }

// ResetOptimizer replaces the optimiser by one with zero moments, for a new stage of
// training.
func (a *Actor) ResetOptimizer(ctx context.Context, o optim.AdamWOptions) error {
	if a.follows {
		return nil
	}
	err := torch.Run(ctx, a.master.Thread(), func(*torch.Scope) error {
		units := a.master.TrainedUnits()
		list := a.extra
		if units == nil {
			list = append(params(a.master), a.extra...)
		}
		fresh := optim.NewAdamW(a.master.Thread(), list, o, units...)
		if a.adamw != nil {
			a.adamw.Close()
		}
		a.adamw = fresh
		return nil
	})
	if err != nil {
		return fmt.Errorf("make the optimiser: %w", err)
	}
	return nil
}

func params(m *model.Model) []optim.Param {
	var list []optim.Param
	for _, p := range m.Trained() {
		list = append(list, optim.Param{Name: p.Name, Tensor: p.Tensor})
	}
	return list
}

// Master returns the model with the float32 weights.
func (a *Actor) Master() *model.Model { return a.master }

// Compute returns the model for forward passes and generation: the shadow, or the
// model of Master if there is no shadow.
func (a *Actor) Compute() *model.Model { return a.compute }

// Bytes returns the size that this rank holds of the weights, their shadow and a critic's head, and
// of the optimiser's two moments.
func (a *Actor) Bytes() (weights, optimizer float64) {
	weights = ModelBytes(a.master)
	if a.compute != a.master {
		weights += ModelBytes(a.compute)
	}
	for _, p := range a.extra {
		weights += float64(p.Tensor.Numel() * p.Tensor.DType().Size())
	}
	if a.follows {
		return weights, 0
	}
	return weights, float64(a.adamw.Bytes())
}

// ModelBytes returns the size that this rank holds of the weights and adapters of m.
func ModelBytes(m *model.Model) float64 { return float64(m.Bytes()) }

// GatherWeights gathers a sharded model on every rank until ReleaseWeights, for generation: the ranks may then run
// different passes. Other models are always whole. All ranks call it.
func (a *Actor) GatherWeights(ctx context.Context) error {
	err := torch.Run(ctx, a.master.Thread(), func(s *torch.Scope) error {
		a.compute.GatherWeights(s)
		return nil
	})
	if err != nil {
		return fmt.Errorf("gather the weights: %w", err)
	}
	return nil
}

// ReleaseWeights undoes GatherWeights.
func (a *Actor) ReleaseWeights(ctx context.Context) error {
	return torch.Run(ctx, a.master.Thread(), func(*torch.Scope) error {
		a.compute.ReleaseWeights()
		return nil
	})
}

// optimizerFile holds the optimiser in a checkpoint folder.
const optimizerFile = "optimizer.safetensors"

// SaveOptimizer writes the optimiser's moments and step count to a checkpoint
// folder.
func (a *Actor) SaveOptimizer(ctx context.Context, dir string) error {
	return a.adamw.Save(ctx, filepath.Join(dir, optimizerFile))
}

// LoadOptimizer restores exactly the optimiser that SaveOptimizer wrote.
func (a *Actor) LoadOptimizer(ctx context.Context, dir string) error {
	return a.adamw.Load(ctx, filepath.Join(dir, optimizerFile))
}

// Inconsistent reports whether the weights may be between two training steps,
// because an update failed between two optimiser steps. Such weights must not be saved.
func (a *Actor) Inconsistent() bool { return a.inconsistent }

// SetInconsistent marks the weights as being between two training steps.
func (a *Actor) SetInconsistent() { a.inconsistent = true }

// OptimizerSteps returns the number of optimiser steps since the optimiser was
// made.
func (a *Actor) OptimizerSteps() int {
	if a.follows {
		return 0
	}
	return a.adamw.Steps()
}

// SpoilLoss passes every loss through f before its backward pass, for fault
// injection. If f is nil, no loss is changed.
func (a *Actor) SpoilLoss(f func(loss torch.Tensor) torch.Tensor) { a.spoil = f }

// SetGradientCheckpointing makes backward passes compute activations again instead
// of keeping them, which saves memory and costs time.
func (a *Actor) SetGradientCheckpointing(on bool) { a.compute.SetGradientCheckpointing(on) }

// SetDropoutSeed sets the seed of the adapters' dropout. The draws of a step depend
// only on the seed and on the number of the step.
func (a *Actor) SetDropoutSeed(seed uint64) { a.dropoutSeed = seed }

// AroundStep makes every optimiser step run as the argument change of f, so that f can keep
// other users of the weights out.
func (a *Actor) AroundStep(f func(ctx context.Context, change func() error) error) { a.around = f }

// Close frees the optimiser, the shadow and the model.
func (a *Actor) Close() {
	if !a.follows {
		a.adamw.Close()
	}
	a.closeShadow()
	a.master.Close()
}

func (a *Actor) closeShadow() {
	if a.compute != a.master {
		a.compute.Close()
	}
}

// optimize does one optimiser step on a mini-batch. The function accumulate adds the gradients of
// this rank's rows to the weights' gradients, and their statistics to sums, which optimize replaces by
// the totals of all ranks. Each share belongs to one optimiser. optimize returns the gradient norm
// of each share, or skipped if a loss or a gradient is not finite on any rank. A skipped step is
// recorded as a step of the first share.
func (a *Actor) optimize(ctx context.Context, rows []data.Row, micro MicroBatching, sums []*float64, accumulate func() error, shares ...optim.Share) (norms []float64, skipped bool, err error) {
	err = accumulate()
	bad, notFinite := errors.AsType[*NotFiniteError](err)
	if err == nil || notFinite {
		if err = micro.sumStats(ctx, a.master.Thread(), sums, bad); err == nil {
			norms, err = a.step(ctx, micro.Group, shares...)
		} else if failed := a.dropGradients(ctx); failed != nil {
			err = failed
		}
	}
	skipped, err = a.skip(rows, shares[0], err)
	if _, diverged := errors.AsType[*DivergedError](err); !diverged { // the ranks diverge together
		err = micro.abort(err)
	}
	return norms, skipped, err
}

// step sums the accumulated gradients over the ranks of g, clips them, updates the weights and
// refreshes the shadow. Either all optimisers step or none does: if a gradient is not finite, step
// drops the gradients and returns an *optim.NotFiniteError. It returns the norms of the gradients.
func (a *Actor) step(ctx context.Context, g *dist.Group, shares ...optim.Share) (norms []float64, err error) {
	a.inconsistent = true
	norms = make([]float64, len(shares))
	change := func() error {
		return torch.Run(ctx, a.master.Thread(), func(s *torch.Scope) error {
			got, err := optim.StepAll(ctx, s, g, shares...)
			if copy(norms, got); err != nil {
				return err
			}
			if a.compute != a.master {
				a.compute.CopyFrom(s, a.master)
			}
			return nil
		})
	}
	if a.around == nil {
		err = change()
	} else {
		err = a.around(ctx, change)
	}
	if _, dropped := errors.AsType[*optim.NotFiniteError](err); dropped || err == nil {
		a.inconsistent = false
	}
	return norms, err
}

// accumulate adds the gradients of a mini-batch to the gradients of the float32 weights.
// The function loss returns the part of the loss of one micro-batch, and adds its statistics to sums.
// Other models that loss runs are listed too.
func (a *Actor) accumulate(ctx context.Context, rows []data.Row, micro MicroBatching, sums []*float64, loss func(s *torch.Scope, p *packed) (torch.Tensor, error), others ...*model.Model) error {
	lockstep, sumsGrads := a.compute.Lockstep() || a.compute.SumsLayers(), a.compute.SumsGrads()
	for _, m := range others {
		lockstep = lockstep || m.Lockstep()
	}
	var bad error // a loss that is not finite; the collectives of later micro-batches must still be run
	notFinite := func(v float64) error {
		err := &NotFiniteError{What: "loss", Value: v}
		if !sumsGrads && !lockstep {
			return err
		}
		if bad == nil {
			bad = err
		}
		return nil
	}
	err := eachMicroBatch(ctx, a.master.Thread(), rows, micro, lockstep || sumsGrads, func(p *packed) error {
		switch {
		case len(p.at) > 0 && !p.idle:
			return a.backward(ctx, p, loss, notFinite)
		case lockstep:
			p, err := idle(rows)
			if err != nil {
				return err
			}
			before := make([]float64, len(sums))
			for i, v := range sums {
				before[i] = *v
			}
			err = a.backward(ctx, p, loss, notFinite)
			for i, v := range sums {
				*v = before[i]
			}
			return err
		case sumsGrads:
			return torch.Run(ctx, a.master.Thread(), func(s *torch.Scope) error { return a.compute.TakeGrads(ctx, s) })
		}
		return nil
	})
	if err == nil {
		err = bad
	}
	return err
}

// backward runs the forward and the backward pass of a micro-batch and adds the
// gradients to the gradients of the float32 weights. It calls notFinite with a loss that is not finite. After an
// error all gradients are zero. The gradients of an idle micro-batch are zero.
func (a *Actor) backward(ctx context.Context, p *packed, loss func(s *torch.Scope, p *packed) (torch.Tensor, error), notFinite func(float64) error) error {
	return torch.Run(ctx, a.master.Thread(), func(s *torch.Scope) (err error) {
		clean := false
		defer func() { // clean up also after an operation that panics
			a.compute.SetDropout(nil, nil)
			a.compute.DropTapes()
			if !clean {
				a.zeroGrads()
			}
		}()
		if a.compute.Dropout() > 0 {
			a.compute.SetDropout(a.dropoutKeys(p), p.layout.Offsets)
		}
		l, err := loss(s, p)
		if err != nil {
			return err
		}
		switch {
		case p.idle:
			l = l.MulScalar(0)
		case a.spoil != nil:
			l = a.spoil(l)
		}
		var value float64
		p.laterAdd(l, &value)
		p.fetch()
		if !p.idle && (math.IsNaN(value) || math.IsInf(value, 0)) {
			if err := notFinite(value); err != nil {
				return err
			}
		}
		a.compute.Backward(s, l)
		if a.compute != a.master {
			a.master.MoveGrads(s, a.compute)
		}
		err = a.compute.TakeGrads(ctx, s)
		clean = err == nil
		return err
	})
}

// withDropout returns the micro-batching of a step that trains the weights. Rows do not share prefixes under dropout, whose draws
// differ from row to row.
func (a *Actor) withDropout(m MicroBatching) MicroBatching {
	m.SharePrefix = m.SharePrefix && a.compute.Dropout() == 0
	return m
}

// dropoutKeys returns the key of the dropout of each row. It combines the seed, the number of the
// optimiser step and the index of the row in the mini-batch in separate bits, so that the draws
// depend neither on micro-batches nor on the number of ranks.
func (a *Actor) dropoutKeys(p *packed) []uint64 {
	keys := make([]uint64, len(p.index))
	for i, row := range p.index {
		keys[i] = a.dropoutSeed*0x9e3779b97f4a7c15 ^ uint64(a.adamw.Steps())<<20 ^ uint64(row)
	}
	return keys
}

// dropGradients drops the gradients of a mini-batch that some rank rejects.
func (a *Actor) dropGradients(ctx context.Context) error {
	return torch.Run(ctx, a.master.Thread(), func(*torch.Scope) error {
		a.zeroGrads()
		return nil
	})
}

// zeroGrads drops all gradients.
func (a *Actor) zeroGrads() {
	a.master.DropGrads()
	a.compute.DropGrads()
	for _, p := range slices.Concat(a.extra, a.sharedHead) {
		p.Tensor.ZeroGrad()
	}
}
