package algo

import (
	"errors"
	"fmt"
	"time"

	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/reward"
	"github.com/openmanus/openmanus/torch/optim"
)

// Options of a Trainer. Everything that opens files, models or connections was
// done by whoever makes one.
type Options struct {
	Seed           uint64
	Steps          int // optimiser-facing training steps; exactly as many are done
	BatchTasks     int // tasks a step; each is played GroupSize times
	Shuffle        bool
	OrderSeed      uint64 // of the order in which tasks are drawn
	Course         Course
	SaveEvery      int // steps between checkpoints; 0: only at the end
	TestEvery      int // steps between validations; 0: only at the end
	ValBeforeTrain bool
	ValUntrained   bool   // validate before the warm start as well
	Keep           int    // checkpoints kept
	BestMetric     string // of BestMetrics: the checkpoint with the best validation is kept as well; "": none is

	Train rollout.Options // of training episodes; Step and callbacks are the trainer's
	Val   rollout.Options // of validation episodes

	Scorer               *reward.Composer // what scores episodes in the signal's place; nil: nothing
	AllocationGamma      float64          // of allocation discounted
	InvalidActionPenalty float64          // taken off an episode's score for every turn without a valid action

	Signal         string
	Allocation     string
	TurnPenalty    float64 // taken off an episode's score for every turn it took
	Estimator      string
	EstimatorOpts  EstimatorOptions
	DropZeroSpread bool
	FilterMetric   string // of GroupMetrics: whose spread counts for DropZeroSpread
	Policy         PolicyOptions
	RefMicro       MicroBatching // of the reference's forward passes
	// Between the phases that need them, keep in host memory:
	OffloadRef       bool // the reference
	OffloadOptimizer bool // the optimiser's moments
	AdamW            optim.AdamWOptions
	Schedule         optim.Schedule // of the learning rate over Steps

	// MaxGap is the mean log-prob gap between sampling and training above
	// which a step warns, or fails if FailOnGap is set.
	MaxGap    float64
	FailOnGap bool

	WarmStart *SFTOptions // supervised epochs before the first step; nil: none
	// FreezeReference makes the weights before the first step the reference of
	// the KL loss, instead of those that Parts.Ref came with.
	FreezeReference bool
}

// SFTOptions configure supervised training.
type SFTOptions struct {
	Rows      []data.Row
	ValRows   []data.Row // whose loss FitSFT reports where it validates
	Epochs    int
	MaxSteps  int // 0: as many as the epochs give
	BatchRows int
	Micro     MicroBatching
	GradClip  float64
	Seed      uint64
	AdamW     optim.AdamWOptions
	Schedule  func(steps int) optim.Schedule
	// SaveAfter is how much time a warm start may lose: a checkpoint is saved
	// at the next step after it. 0: none before the end.
	SaveAfter time.Duration
}

// Steps is the number of optimiser steps that the options lead to.
func (o *SFTOptions) Steps() int {
	n := o.perEpoch() * o.Epochs
	if o.MaxSteps > 0 && n > o.MaxSteps {
		n = o.MaxSteps
	}
	return n
}

// batch is how many rows an optimiser step takes, the first being step 1: the
// last of an epoch takes what is left, so that every row is seen once in each.
func (o *SFTOptions) batch(step int) int {
	taken := (step - 1) % o.perEpoch() * o.BatchRows
	return min(o.BatchRows, len(o.Rows)-taken)
}

// perEpoch is the number of optimiser steps of a pass over the rows.
func (o *SFTOptions) perEpoch() int { return (len(o.Rows) + o.BatchRows - 1) / o.BatchRows }

// Env is one environment of the run.
type Env struct {
	Name       string
	Train, Val rollout.Env // the same pool with the sampling of each
	TrainTasks []data.Task
	ValTasks   []data.Task
}

func (o *Options) validate(envs []Env) error {
	var errs []error
	positive := func(name string, v int) {
		if v < 1 {
			errs = append(errs, fmt.Errorf("%s is %d, want at least 1", name, v))
		}
	}
	positive("total steps", o.Steps)
	positive("train batch size", o.BatchTasks)
	positive("group size", o.Train.GroupSize)
	positive("validation samples", o.Val.GroupSize)
	if err := checkBestMetric(o.BestMetric); err != nil {
		errs = append(errs, err)
	}
	if _, err := Estimators.Lookup(o.Estimator); err != nil {
		errs = append(errs, err)
	}
	tasks := 0
	for _, e := range envs {
		tasks += len(e.TrainTasks)
	}
	if tasks == 0 {
		errs = append(errs, errors.New("no environment has tasks to train on"))
	}
	return errors.Join(errs...)
}
