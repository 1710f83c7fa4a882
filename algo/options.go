package algo

import (
	"errors"
	"fmt"

	"github.com/openmanus/openmanus/agent"
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

// Options configure a Trainer. The caller has opened all files, models and
// connections.
type Options struct {
	Loop
	Play
	Scoring
	Update

	// WarmStart is the supervised training before the first step. nil: none.
	WarmStart *SFTOptions
	// FreezeReference makes the weights before the first step the reference of the
	// KL, in place of the weights of Parts.Ref.
	FreezeReference bool

	// Method selects the method of the steps: PolicyGradient (the default), Evol, Recorded
	// or Supervised.
	Method MethodOptions
}

// Loop configures the parts that every method has: the length of the run, validations and
// checkpoints.
type Loop struct {
	Seed           uint64
	Steps          int // number of training steps; Supervised ignores it
	SaveEvery      int // number of steps between checkpoints; 0: only at the end
	TestEvery      int // number of steps between validations; 0: only at the end
	ValBeforeTrain bool
	ValUntrained   bool            // validate before the warm start too
	Val            rollout.Options // options of validation episodes; the Trainer sets Step and the callbacks
	Keep           int             // number of checkpoints to keep
	BestMetric     string          // also keep the checkpoint with the best value of this metric of rundir.BestMetrics; "": off

	// PeakFLOPS is the number of floating-point operations that the device can do in
	// a second, in the compute type. 0: unknown, utilisation is not reported.
	PeakFLOPS float64

	// Each option keeps tensors in host memory between the phases that use them:
	OffloadRef       bool // the reference
	OffloadOptimizer bool // the moments of the actor's optimiser
	OffloadCritic    bool // the moments of the optimiser of a critic with a separate decoder

	// FreeKV frees the KV cache of the engine while a step computes log-probs and updates weights. It requires AsyncSteps = 0.
	FreeKV bool
}

// Play configures the episodes of a step.
type Play struct {
	BatchTasks    int             // number of tasks of a step; each is played Train.GroupSize times
	Train         rollout.Options // options of training episodes; the Trainer sets Step and the callbacks
	Shuffle       bool
	OrderSeed     uint64 // seed of the order of tasks
	Course        Course
	FilterGroups  bool   // draw tasks until BatchTasks groups have spread (DAPO)
	FilterMetric  string // name in GroupMetrics of the value whose spread FilterGroups and DropZeroSpread compare
	MaxGenBatches int    // maximum number of batches of BatchTasks tasks that FilterGroups draws

	// AsyncSteps is the number of later steps whose episodes may be played during the update of a step. 0: episodes
	// and updates take turns.
	AsyncSteps int

	// Source supplies the training episodes. nil: they are played in the environments. With a
	// Source the training tasks of the environments are not drawn.
	Source rollout.Source
}

// Scoring configures the score of an episode and its token rewards.
type Scoring struct {
	Scorer               *reward.Composer // replaces the environment's signal as score; nil: off
	Signal               string           // name in reward.Signals
	Allocation           string           // name in reward.Allocations
	AllocationGamma      float64          // discount of the allocation named discounted
	TurnPenalty          float64          // subtracted from the score for every turn
	InvalidActionPenalty float64          // subtracted for every turn without a valid action, from the score or at the turn (advantage.Estimator.PenaltyByTurn)
}

// Update configures the policy-gradient update of a step.
type Update struct {
	Estimator      string // name in advantage.Estimators
	EstimatorOpts  advantage.Options
	DropZeroSpread bool      // leave out groups without spread, under an estimator that compares within groups
	KLReward       *KLReward // nil: off
	Correction     Correction
	PFPPO          string // name in advantage.Reweightings; "": off
	Policy         learner.PolicyOptions
	Critic         *learner.CriticOptions // nil: no critic
	RefMicro       learner.MicroBatching  // micro-batches of the reference's forward passes
	AdamW          optim.AdamWOptions
	Schedule       optim.Schedule // learning rate over the steps that train the actor

	// MaxGap is the mean log-prob gap between sampling and training above which a
	// step logs a warning or, with FailOnGap, fails. 0: off.
	MaxGap    float64
	FailOnGap bool
}

// KLReward subtracts the KL to the reference from the rewards.
type KLReward struct {
	Type       string        // name in kl.Estimators
	Controller kl.Controller // initial controller of the coefficient
}

// Correction configures rollout correction: weights and rejection for the
// difference between the policy that sampled and the policy that is trained.
type Correction struct {
	Weights *correction.Weights
	Rules   []correction.Rule
}

func (c Correction) on() bool { return c.Weights != nil || len(c.Rules) > 0 }

// Env is one environment of the run.
type Env struct {
	Name       string      // data.Task.Table of its tasks: the label of the environment, or its name
	Train, Val rollout.Env // the same pool with the sampling options of training and of validation
	Weight     float64     // weight of its training tasks in the mixture; 0: only validations play it
	TrainTasks []data.Task
	ValTasks   []data.Task
}

// validate checks the options that every method has.
func (o *Loop) validate() error {
	return errors.Join(agent.AtLeast("validation samples", o.Val.GroupSize, 1), rundir.CheckBestMetric(o.BestMetric))
}

func (o *Play) validate(envs []Env) error {
	errs := []error{agent.AtLeast("train batch size", o.BatchTasks, 1), agent.AtLeast("group size", o.Train.GroupSize, 1)}
	if o.FilterGroups {
		errs = append(errs, agent.AtLeast("max_gen_batches", o.MaxGenBatches, 1))
	}
	if o.AsyncSteps > 0 && (o.Source != nil || o.Train.Deterministic || o.Course.Sampler.Used()) {
		errs = append(errs, errors.New("episodes cannot be played ahead with a Source, in deterministic batches, or with a curriculum that chooses tasks by their results"))
	}
	if o.Source != nil && (len(o.Course.Stages) > 0 || o.Course.Sampler.Used()) {
		errs = append(errs, errors.New("a curriculum chooses tasks, but the training episodes come from agents in other programs, which choose their tasks: use no curriculum"))
	}
	if _, err := newOrder(envs, *o); err != nil {
		errs = append(errs, fmt.Errorf("training tasks: %w", err))
	}
	return errors.Join(errs...)
}

func (o *Update) validate(p Play) error {
	var errs []error
	add := func(err error) { errs = append(errs, err) }
	e, err := advantage.Estimators.Lookup(o.Estimator)
	add(err)
	if e.Needs.Values && o.Critic == nil {
		add(fmt.Errorf("advantage estimator %s needs a critic", o.Estimator))
	}
	if e.Needs.Baseline && p.Source != nil {
		add(fmt.Errorf("advantage estimator %s plays a greedy episode of every task, but the training episodes come from agents in other programs: use another estimator", o.Estimator))
	}
	if e.Needs.Parts && o.KLReward != nil {
		add(fmt.Errorf("advantage estimator %s uses the parts of the reward and does not support a KL in the reward", o.Estimator))
	}
	add(loss.Check(o.Policy.Loss, o.Policy.Agg))
	if _, known := GroupMetrics[p.FilterMetric]; !known && (o.DropZeroSpread || p.FilterGroups) {
		add(fmt.Errorf("unknown group metric %q", p.FilterMetric))
	}
	if o.KLReward != nil {
		add(o.KLReward.Controller.Validate())
		_, _, err := kl.Lookup(o.KLReward.Type)
		add(err)
	}
	if o.Policy.KLCoef != 0 {
		add(kl.Check(o.Policy.KLType))
	}
	if o.PFPPO != "" {
		_, err := advantage.Reweightings.Lookup(o.PFPPO)
		add(err)
	}
	return errors.Join(errs...)
}

// needsReference reports whether a step measures the KL to a frozen policy.
func (o *Update) needsReference() bool { return o.KLReward != nil || o.Policy.KLCoef != 0 }
