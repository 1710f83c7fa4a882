package algo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo/kl"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/rundir/checkpoint"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
)

// Engine is what the trainer needs of the scheduler that samples.
type Engine interface {
	// Exclusive runs f while no batch is in flight.
	Exclusive(ctx context.Context, f func() error) error
	// Stats counts what was done since the start.
	Stats() engine.Stats
}

// Trainer trains one policy. Make it with New, then call Fit once.
type Trainer struct {
	o    Options
	envs []Env

	actor      *learner.Actor
	critic     *learner.Critic // nil: no critic
	ref        *model.Model    // frozen; nil without a KL to it
	kl         *kl.Controller  // of the KL in the reward; nil where there is none
	engine     Engine
	kvBytes    int64
	scoreBytes int64
	updated    func(version int64) // tells the sampler that the weights are new

	run    *rundir.Folder
	save   func(ctx context.Context, dir string) error // writes the actor as a Hugging Face folder
	saveC  func(ctx context.Context, dir string) error // and the critic's decoder
	sink   track.Sink
	events Events
	log    *slog.Logger

	state   rundir.State
	order   *data.Mixture
	course  *course            // nil: tasks come in their order
	kept    []data.Row         // what AgentEvol learned from its own episodes so far
	unsaved bool               // the state has gone on since the last checkpoint
	saving  float64            // seconds that checkpoint took, until a line tells of them
	counted counts             // what the last line of metrics told of
	handed  map[string]float64 // tokens that the phases of the step were given, all their passes counted
}

// Parts are what a Trainer is put together from.
type Parts struct {
	Actor   *learner.Actor
	Critic  *learner.Critic // nil: no critic
	Ref     *model.Model
	Engine  Engine
	KVBytes int64 // of the engine's cache; 0: unknown
	// RewardModelBytes are those of a reward model behind Options.Scorer.
	RewardModelBytes int64
	Updated          func(version int64)
	Envs             []Env
	Run              *rundir.Folder
	Day              string // that the prompts say it is
	// Inputs are digests of what the run is made of, for whoever resumes it.
	Inputs map[string]string
	Save   func(ctx context.Context, dir string) error
	// SaveCritic is Save for the critic's decoder.
	SaveCritic func(ctx context.Context, dir string) error
	// Kept are the episodes that the checkpoint to go on from has kept (LoadKept).
	Kept   []data.Row
	Sink   track.Sink
	Events Events // nil: nobody watches
	Log    *slog.Logger
}

// Events tell whoever watches a run what it is doing. Calls come from one
// goroutine at a time.
type Events interface {
	// Phase says that a phase has begun, and that the one before it is over.
	Phase(p Phase)
	// Progress says that n units of the phase are done.
	Progress(n int, note string)
	// Step reports the metrics of a finished step, or of a supervised step
	// with step 0.
	Step(step, steps int, m map[string]float64)
	// Validated reports a validation.
	Validated(v rundir.Validation)
}

// New checks the options and, if resumed is not nil, goes on from there.
func New(p Parts, o Options, resumed *rundir.State) (*Trainer, error) {
	if err := o.validate(p.Envs); err != nil {
		return nil, err
	}
	t := &Trainer{
		o: o, envs: p.Envs, actor: p.Actor, critic: p.Critic, ref: p.Ref, engine: p.Engine, kvBytes: p.KVBytes, scoreBytes: p.RewardModelBytes, updated: p.Updated,
		run: p.Run, save: p.Save, saveC: p.SaveCritic, sink: p.Sink, events: p.Events, log: p.Log,
	}
	t.counted = counts{}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	if t.events == nil {
		t.events = noEvents{}
	}
	var err error
	if t.order, err = newOrder(p.Envs, o); err != nil {
		return nil, err
	}
	t.state = rundir.State{Seed: o.Seed, Day: p.Day, Inputs: p.Inputs}
	t.state.SetDrawState(t.order.State())
	if resumed != nil {
		t.state = *resumed
		t.state.Day, t.state.Inputs = p.Day, p.Inputs
		if b := t.state.Best; b != nil && p.Run != nil && !checkpoint.Has(p.Run.Checkpoints(), b.Step) {
			t.state.Best = nil // a later one took its place, and that is no longer part of the run
		}
		t.actor.SetBadSteps(resumed.BadSteps)
		if t.critic != nil {
			t.critic.SetBadSteps(resumed.CriticBadSteps)
		}
		st, err := resumed.DrawState(len(p.Envs))
		if err == nil {
			err = t.order.Restore(st)
		}
		if err != nil {
			return nil, fmt.Errorf("the tasks are not those of the checkpoint: %w", err)
		}
	}
	if o.needsReference() && p.Ref == nil {
		return nil, errors.New("there is no reference to measure the KL to")
	}
	if (o.Critic != nil) != (p.Critic != nil) {
		return nil, errors.New("a critic and its options come together")
	}
	if p.Critic != nil && p.Critic.Shared() && p.Critic.Actor != p.Actor {
		return nil, errors.New("the critic is on the decoder of another actor")
	}
	t.o.Policy.Reference = p.Ref
	if o.KLReward != nil {
		c := o.KLReward.Controller
		if t.state.KLCoef != nil {
			c.Coef = *t.state.KLCoef
		}
		t.kl = &c
	}
	if t.kept = p.Kept; len(t.kept) != t.state.Kept {
		return nil, fmt.Errorf("the checkpoint has kept %d rows of episodes, there are %d", t.state.Kept, len(t.kept))
	}
	t.course = newCourse(p.Envs, o.Course.Sampler)
	if err := t.course.restore(t.state.Curriculum); err != nil {
		return nil, fmt.Errorf("the tasks are not those of the checkpoint: %w", err)
	}
	if t.updated != nil {
		t.updated(t.state.WeightVersion)
	}
	return t, nil
}

// State returns where the run stands.
func (t *Trainer) State() rundir.State { return t.state }

// trainEnvs are the environments as a step plays them.
func (t *Trainer) trainEnvs(step int) map[string]rollout.Env {
	m := map[string]rollout.Env{}
	for _, e := range t.envs {
		most := &e.Train.Setup.Options.MaxTurns // of this copy
		*most = t.o.Course.Stages.Turns(step, *most)
		m[e.Name] = e.Train
	}
	return m
}

type noEvents struct{}

func (noEvents) Phase(Phase)                       {}
func (noEvents) Progress(int, string)              {}
func (noEvents) Step(int, int, map[string]float64) {}
func (noEvents) Validated(rundir.Validation)       {}
