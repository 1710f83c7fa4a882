package algo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/ranks"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/rundir/checkpoint"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/env/pool"
)

// Trainer runs the training loop of one policy. Make it with New, then call Fit
// once.
type Trainer struct {
	core
	method  Method
	saving  float64                // seconds that the last checkpoint took; 0 after a line has reported them
	counted map[string]pool.Counts // counts of each environment's pool up to the last line, by environment
}

// Parts are the opened models, servers and files of a Trainer.
type Parts struct {
	// Ranks are the processes of the run. nil: this one alone. Rank 0 writes the run folder.
	Ranks *ranks.Ranks
	// Ahead is another connection of the Ranks, for the episodes that are played ahead. It is nil if Ranks is nil or AsyncSteps is 0.
	Ahead  *ranks.Ranks
	Actor  *learner.Actor
	Critic *learner.Critic // nil: no critic
	Ref    *model.Model    // frozen reference of the KL; nil: none
	Engine *engine.Scheduler
	// Together are the ranks with which this one generates; the zero value: none.
	Together Together
	KVBytes  int64 // size of the engine's KV cache; 0: unknown
	// RewardModelBytes is the size of the reward model behind Scoring.Scorer.
	RewardModelBytes int64
	// Updated is called with the new version after every change of the weights.
	Updated func(version int64)
	Envs    []Env
	Run     *rundir.Folder
	Day     string // date in the prompts, 2006-01-02
	// Inputs are digests of tasks and files; a resumed run compares them.
	Inputs map[string]string
	// Save writes the actor as a Hugging Face folder, SaveCritic the critic's decoder.
	Save, SaveCritic func(ctx context.Context, dir string) error
	// Checkpoint is the folder of the checkpoint to resume; "" without one.
	Checkpoint string
	Sink       track.File // nil on ranks other than 0
	Events     Events     // nil: none
	Log        *slog.Logger
}

// Together describes the ranks that hold one model for generation, each a part of it. Size successive ranks hold a model.
type Together struct {
	Size int
	// Play calls play on the first of these ranks. The others run the steps of its engine. All ranks of the run call Play.
	Play func(ctx context.Context, play func() error) error
}

// New checks the options and, if resumed is not nil, continues from that state of
// the checkpoint folder p.Checkpoint.
func New(p Parts, o Options, resumed *rundir.State) (*Trainer, error) {
	if err := o.Loop.validate(); err != nil {
		return nil, err
	}
	t := &Trainer{core: core{Parts: p, o: o, tokens: map[string]float64{}}, counted: map[string]pool.Counts{}}
	if t.Log == nil {
		t.Log = slog.New(slog.DiscardHandler)
	}
	if t.Events == nil {
		t.Events = noEvents{}
	}
	t.state = rundir.State{Seed: o.Seed}
	if resumed != nil {
		t.state = *resumed
		if b := t.state.Best; b != nil && p.Run != nil && !checkpoint.Has(p.Run.Checkpoints(), b.Step) {
			t.state.Best = nil // the best checkpoint was set aside
		}
		t.Actor.SetBadSteps(resumed.BadSteps)
		if t.Critic != nil {
			t.Critic.SetBadSteps(resumed.CriticBadSteps)
		}
	}
	t.state.Day, t.state.Inputs = p.Day, p.Inputs
	if o.Method == nil {
		o.Method = PolicyGradient{}
	}
	var err error
	if t.method, err = o.Method.open(&t.core); err != nil {
		return nil, err
	}
	t.steps = t.method.Steps()
	if o.AsyncSteps > 0 && t.Ranks.Workers() == 0 && t.Actor.Compute().Lockstep() {
		return nil, errors.New("episodes cannot be played ahead while the weights are sharded over the ranks: every batch of the engine would be a collective")
	}
	if o.AsyncSteps > 0 && o.FreeKV {
		return nil, errors.New("episodes cannot be played ahead if the KV cache is freed during an update")
	}
	if o.AsyncSteps > 0 {
		t.Actor.AroundStep(t.Engine.ChangeWeights)
	}
	if resumed != nil {
		if err := t.method.Restore(p.Checkpoint); err != nil {
			return nil, fmt.Errorf("resume from the checkpoint: %w", err)
		}
	}
	if t.Updated != nil {
		t.Updated(t.state.WeightVersion)
	}
	return t, nil
}

// State returns the state of the run.
func (t *Trainer) State() rundir.State { return t.state }
