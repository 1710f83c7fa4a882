package algo

// Supervised training on recorded trajectories: the method Supervised and the loop
// of a warm start. learner.Actor.UpdateSFT computes the loss. The order of the rows
// depends only on the seed.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/ranks"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch/optim"
)

// SFTOptions configure supervised training.
type SFTOptions struct {
	Rows      []data.Row
	ValRows   []data.Row // held-out rows; a validation of Supervised reports their loss
	Epochs    int
	MaxSteps  int // bound on the optimiser steps; 0: only Epochs bounds them
	BatchRows int // number of rows of an optimiser step
	Micro     learner.MicroBatching
	GradClip  float64
	Seed      uint64
	AdamW     optim.AdamWOptions
	Schedule  func(steps int) optim.Schedule
	// SaveAfter is the time between checkpoints of a warm start. 0: only at the end.
	SaveAfter time.Duration
	Save      func(context.Context) error // writes a checkpoint of a warm start
	Events    Events                      // receives the progress of TrainSFT; nil: none
	Ranks     *ranks.Ranks                // the processes that call TrainSFT; nil: this one alone
}

// Steps returns the number of optimiser steps.
func (o *SFTOptions) Steps() int {
	n := o.perEpoch() * o.Epochs
	if o.MaxSteps > 0 && n > o.MaxSteps {
		n = o.MaxSteps
	}
	return n
}

// batch returns the number of rows of an optimiser step, counted from 1. The last
// step of an epoch takes the remainder, so that each epoch has every row once.
func (o *SFTOptions) batch(step int) int {
	taken := (step - 1) % o.perEpoch() * o.BatchRows
	return min(o.BatchRows, len(o.Rows)-taken)
}

// perEpoch returns the number of optimiser steps of a pass over the rows.
func (o *SFTOptions) perEpoch() int { return (len(o.Rows) + o.BatchRows - 1) / o.BatchRows }

// sftRun draws the rows of supervised steps and learns from them.
type sftRun struct {
	SFTOptions
	schedule optim.Schedule
	order    *data.Order
}

// newSFTRun returns the state of a run. The argument done is the number of finished steps.
func newSFTRun(o SFTOptions, done int) (*sftRun, error) {
	order, err := data.NewOrder(len(o.Rows), true, o.Seed)
	if err != nil {
		return nil, err
	}
	r := &sftRun{SFTOptions: o, schedule: o.Schedule(o.Steps()), order: order}
	for step := range done {
		order.Next(o.batch(step + 1))
	}
	return r, nil
}

// next returns the rows of the next step.
func (r *sftRun) next(step int) []data.Row {
	rows := make([]data.Row, 0, r.BatchRows)
	for _, i := range r.order.Next(r.batch(step)) {
		rows = append(rows, r.Rows[i])
	}
	return rows
}

// learn updates the actor on the rows of a step.
func (r *sftRun) learn(ctx context.Context, a *learner.Actor, events Events, step int, rows []data.Row, m Metrics) error {
	began := time.Now()
	lr := r.schedule.LR(step - 1)
	events.Phase(Phase{Name: PhaseSFT, Step: step, Steps: r.Steps(), Total: len(rows)})
	st, err := a.UpdateSFT(countRows(ctx, events), rows, lr, r.GradClip, r.Micro)
	if err != nil {
		return err
	}
	seconds, tokens := time.Since(began).Seconds(), 0
	for i := range rows {
		tokens += len(rows[i].Tokens)
	}
	m[track.SFTStep], m[track.SFTEpoch], m[track.SFTLR] = float64(step), float64(step/r.perEpoch()), lr
	m[track.SFTTokens], m[track.SFTSkipped] = float64(st.Tokens), 0
	m[track.TimingSFT], m[track.SFTThroughput] = seconds, float64(tokens)/seconds
	if st.Skipped { // the loss or the gradient of the step was not finite
		m[track.SFTSkipped] = 1
		return nil
	}
	m[track.SFTLoss], m[track.SFTGradNorm] = st.Loss, st.GradNorm
	return nil
}

// TrainSFT runs the supervised steps from step done+1 on and calls the function report
// after each. When the context soft ends, it returns ErrInterrupted after the current step, with several ranks at their
// next check.
func TrainSFT(ctx, soft context.Context, a *learner.Actor, o SFTOptions, done int, report func(step, steps int, m Metrics) error) error {
	r, err := newSFTRun(o, done)
	if err != nil {
		return err
	}
	events := o.Events
	if events == nil {
		events = noEvents{}
	}
	steps := o.Steps()
	between := checks{ranks: o.Ranks, saveAfter: o.SaveAfter, now: time.Now}
	for step := done + 1; step <= steps; step++ {
		save, err := between.before(ctx, soft, step)
		if err == nil && save {
			err = o.Save(ctx)
		}
		if err != nil {
			return err
		}
		m := Metrics{}
		if err := r.learn(ctx, a, events, step, r.next(step), m); err != nil {
			return fmt.Errorf("supervised step %d: %w", step, err)
		}
		if err := report(step, steps, m); err != nil {
			return err
		}
	}
	return nil
}

// Supervised makes every training step a step of supervised training. Only validations play.
type Supervised struct{ SFTOptions }

type supervised struct {
	*core
	run *sftRun
}

func (o Supervised) open(c *core) (Method, error) {
	if len(o.Rows) == 0 {
		return nil, errors.New("supervised training needs trajectories")
	}
	if len(o.ValRows) > 0 {
		c.heldOut = &o.SFTOptions
	}
	// Every step uses the optimiser's moments: offloading them would only cost time.
	c.o.OffloadRef, c.o.OffloadOptimizer, c.o.OffloadCritic = false, false, false
	s := &supervised{core: c}
	var err error
	s.run, err = newSFTRun(o.SFTOptions, c.state.Step)
	return s, err
}

func (s *supervised) Steps() int { return s.run.Steps() }

func (s *supervised) Restore(string) error {
	if s.state.Step > 0 && !s.state.Supervised {
		return errors.New("it was saved by reinforcement learning, and supervised training cannot continue from it")
	}
	return nil
}

// Begin validates the weights before the first step.
func (s *supervised) Begin(ctx, soft context.Context, t *Trainer) error {
	s.state.Supervised = true
	if s.state.Step > 0 || !s.o.ValBeforeTrain || t.validated(rundir.LabelBefore) {
		return nil
	}
	if err := t.validateAtStart(ctx, soft, rundir.LabelBefore, ""); err != nil || s.state.Best == nil {
		return err
	}
	return t.SaveCheckpoint(ctx) // the untrained weights may remain the best
}

func (s *supervised) Collect(_ context.Context, step int, _ Metrics) (Batch, error) {
	return Batch{Rows: s.run.next(step)}, nil
}

func (s *supervised) Learn(ctx context.Context, step int, b Batch, m Metrics) error {
	if err := s.freeKV(ctx); err != nil {
		return err
	}
	if err := s.run.learn(ctx, s.Actor, s.Events, step, b.Rows, m); err != nil {
		return err
	}
	s.newWeights()
	return nil
}

func (s *supervised) Finish(int, Batch, float64, Metrics) error { return nil }
func (s *supervised) Check(int) error                           { return nil }
func (s *supervised) Save(string) error                         { return nil }
