package algo

import (
	"errors"
	"fmt"
	"time"

	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo/advantage"
	"github.com/openmanus/openmanus/algo/correction"
	"github.com/openmanus/openmanus/algo/kl"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/loss"
	"github.com/openmanus/openmanus/algo/rundir"
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
	InvalidActionPenalty float64          // taken off an episode's score, or off the turn (advantage.Estimator.PenaltyByTurn), for every turn without a valid action

	Signal         string
	Allocation     string
	TurnPenalty    float64 // taken off an episode's score for every turn it took
	Estimator      string
	EstimatorOpts  advantage.Options
	DropZeroSpread bool   // under an estimator that compares within groups
	FilterMetric   string // of GroupMetrics: whose spread counts for DropZeroSpread
	FilterGroups   bool   // draw tasks until BatchTasks groups have spread
	MaxGenBatches  int    // at most so many times BatchTasks tasks
	KLReward       *KLReward
	Correction     Correction
	PFPPO          string // of advantage.Reweightings; "" for none
	PFPPOPower     float64
	Policy         learner.PolicyOptions
	Critic         *learner.CriticOptions // nil: no critic
	RefMicro       learner.MicroBatching  // of the reference's forward passes
	// Between the phases that need them, keep in host memory:
	OffloadRef       bool // the reference
	OffloadOptimizer bool // the optimiser's moments
	OffloadCritic    bool // those of the critic's optimiser, unless it shares the actor's decoder
	AdamW            optim.AdamWOptions
	Schedule         optim.Schedule // of the learning rate over the steps that train the actor

	// Evol makes the steps those of AgentEvol: of what is above for the update
	// only the passes, the mini-batches and the optimiser are theirs. nil: not.
	Evol *Evol

	// PeakFLOPS is how many floating-point operations a second the device can
	// do in the compute type; 0: unknown, and utilisation is not reported.
	PeakFLOPS float64

	// MaxGap is the mean log-prob gap between sampling and training above
	// which a step warns, or fails if FailOnGap is set.
	MaxGap    float64
	FailOnGap bool

	// Recorded are the episodes of every step where a dump is trained from:
	// nothing is played, and the recorded log-probs are the old ones.
	Recorded  [][]*data.Episode
	OffPolicy bool // they were played by other weights than those of the start

	WarmStart *SFTOptions // supervised epochs before the first step; nil: none
	// FreezeReference makes the weights before the first step the reference of
	// the KL loss, instead of those that Parts.Ref came with.
	FreezeReference bool
}

// KLReward takes the KL to the reference off the rewards.
type KLReward struct {
	Type       string        // of kl.Estimators
	Controller kl.Controller // as it is before the first step
}

// Correction says what is done about the distance between the policy that
// sampled and the one that is trained.
type Correction struct {
	Weights *correction.Weights
	Rules   []correction.Rule
}

func (c Correction) on() bool { return c.Weights != nil || len(c.Rules) > 0 }

// SFTOptions configure supervised training.
type SFTOptions struct {
	Rows      []data.Row
	ValRows   []data.Row // whose loss FitSFT reports where it validates
	Epochs    int
	MaxSteps  int // 0: as many as the epochs give
	BatchRows int
	Micro     learner.MicroBatching
	GradClip  float64
	Seed      uint64
	AdamW     optim.AdamWOptions
	Schedule  func(steps int) optim.Schedule
	// SaveAfter is how much time a warm start may lose: a checkpoint is saved
	// at the next step after it. 0: none before the end.
	SaveAfter time.Duration
	// Events are told of every step; nil: nobody watches.
	Events Events
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
	Name       string      // its label, where it has one: data.Task.Table of its tasks
	Train, Val rollout.Env // the same pool with the sampling of each
	Weight     float64     // of its training tasks in the mixture
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
	add := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	add(rundir.CheckBestMetric(o.BestMetric))
	add(o.checkEvol())
	e, err := advantage.Estimators.Lookup(o.Estimator)
	add(err)
	if e.Needs.Values && o.Critic == nil {
		add(fmt.Errorf("advantage estimator %s needs a critic", o.Estimator))
	}
	if e.Needs.Parts && o.KLReward != nil {
		add(fmt.Errorf("advantage estimator %s looks at the parts of the reward, and the KL in the reward is none of them", o.Estimator))
	}
	add(loss.Check(o.Policy.Loss, o.Policy.Agg))
	if _, known := GroupMetrics[o.FilterMetric]; !known && (o.DropZeroSpread || o.FilterGroups) {
		add(fmt.Errorf("there is no group metric %q", o.FilterMetric))
	}
	if o.FilterGroups {
		positive("batches generated for one", o.MaxGenBatches)
	}
	if o.KLReward != nil {
		add(o.KLReward.Controller.Validate())
		_, err := kl.Estimate(o.KLReward.Type, 0)
		add(err)
	}
	if o.Policy.KLCoef != 0 {
		add(kl.Check(o.Policy.KLType))
	}
	if o.PFPPO != "" {
		_, err := advantage.Reweightings.Lookup(o.PFPPO)
		add(err)
	}
	if _, err := newOrder(envs, *o); err != nil {
		errs = append(errs, fmt.Errorf("tasks to train on: %w", err))
	}
	return errors.Join(errs...)
}

// needsReference reports whether a step measures the KL to a frozen policy.
func (o *Options) needsReference() bool { return o.KLReward != nil || o.Policy.KLCoef != 0 }
