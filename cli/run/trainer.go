package run

import (
	"context"
	"time"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
)

// trainer assembles the trainer. All ranks call it. The ranks agree before each copy of sharded weights, which is a collective.
func (t *training) trainer(ctx context.Context, events algo.Events) (trainer *algo.Trainer, err error) {
	var o algo.Options
	var ref, decoder *model.Model
	var inputs map[string]string
	loadReference := func() error {
		if err := t.addReference(ctx, inputs, ref); err != nil {
			return err
		}
		if err := t.run.checkInputs(inputs); err != nil {
			return err
		}
		return t.loadReference(ctx, ref)
	}
	err = t.host.Ranks.Each(ctx, func() (err error) {
		if o, err = t.options(ctx); err != nil {
			return err
		}
		if inputs, err = t.inputDigests(); err != nil {
			return err
		}
		if err := t.run.checkInputs(inputs); err != nil {
			return err
		}
		if ref, err = t.reference(ctx); err != nil || t.copiesReference() {
			return err
		}
		return loadReference()
	})
	if err == nil && t.copiesReference() {
		err = loadReference()
	}
	if err != nil {
		return nil, err
	}
	loadDecoder := func() error {
		if decoder == nil {
			return nil
		}
		err := t.load(ctx, decoder, false)
		if err != nil {
			decoder.Close()
		}
		return err
	}
	err = t.host.Ranks.Each(ctx, func() (err error) {
		if decoder, err = t.criticDecoder(ctx); err != nil || t.copiesCritic() {
			return err
		}
		return loadDecoder()
	})
	if err == nil && t.copiesCritic() {
		err = loadDecoder()
	}
	if err != nil {
		return nil, err
	}
	err = t.host.Ranks.Each(ctx, func() error {
		critic, err := t.critic(ctx, decoder)
		if err != nil {
			return err
		}
		if trainer, err = t.assemble(ctx, o, ref, critic, inputs, events); err != nil {
			return err
		}
		return t.startScorer(ctx)
	})
	return trainer, err
}

// options returns the options of the trainer.
func (t *training) options(ctx context.Context) (algo.Options, error) {
	tasks := 0
	for _, e := range t.envs {
		if e.cfg.Weight > 0 {
			tasks += len(e.train)
		}
	}
	o, err := trainerOptions(t.host, t.cfg, t.compute, tasks)
	if err != nil {
		return o, err
	}
	t.onRanks(&o.Policy.Micro)
	t.onRanks(&o.RefMicro)
	if o.Critic != nil {
		t.onRanks(&o.Critic.Micro)
	}
	if t.warm != nil {
		t.onRanks(&t.warm.Micro)
	}
	o.FreezeReference = t.freezesReference()
	if o.WarmStart = t.warm; t.mode == supervised {
		o.Method, o.WarmStart, o.AsyncSteps = algo.Supervised{SFTOptions: *t.warm}, nil, 0
	}
	o.FreeKV = !t.thread.Device().IsCPU() && t.cfg.FreesKV()
	if evol, ok := o.Method.(algo.Evol); ok {
		evol.Original = t.sftRows
		o.Method = evol
	}
	o.Scorer, o.AllocationGamma, o.InvalidActionPenalty = t.scorer, t.cfg.Reward.Gamma, t.cfg.Reward.InvalidActionPenalty
	if t.dump != nil && t.mode == reinforced {
		if err := t.fromDump(ctx, &o); err != nil {
			return o, err
		}
	}
	if !t.host.Ranks.Trains() {
		o.Method = algo.Worker{}
	}
	switch {
	case t.agents != nil:
		o.Source = t.agents
	case t.servesAgents():
		o.Source = noSource{}
	}
	return o, nil
}

// assemble makes the trainer of its parts.
func (t *training) assemble(ctx context.Context, o algo.Options, ref *model.Model, critic *learner.Critic, inputs map[string]string, events algo.Events) (*algo.Trainer, error) {
	var from string
	if t.run.checkpoint != nil {
		from = t.run.checkpoint.Path
	}
	sink, err := t.metrics(ctx)
	if err != nil {
		return nil, err
	}
	log := t.host.Log
	if !t.host.Ranks.First() { // the messages of rank 0
		log = nil
	}
	trainer, err := algo.New(algo.Parts{
		Ranks:            t.host.Ranks,
		Ahead:            t.host.ahead,
		Actor:            t.actor,
		Critic:           critic,
		Ref:              ref,
		Engine:           t.sampler.Scheduler,
		Together:         t.together(),
		KVBytes:          t.sampler.KVBytes,
		RewardModelBytes: t.rewardBytes,
		Updated:          t.sampler.Backend.SetVersion,
		Envs:             t.trainerEnvs(),
		Run:              t.run.Folder,
		Day:              t.day().Format(time.DateOnly),
		Inputs:           inputs,
		Save: func(ctx context.Context, dir string) error {
			if t.bundle.Model.HasLoRA() {
				return t.bundle.SaveAdapters(ctx, dir)
			}
			return t.bundle.Save(ctx, dir, torch.Float32)
		},
		SaveCritic: t.saveCritic(critic),
		Checkpoint: from,
		Sink:       sink,
		Events:     events,
		Log:        log,
	}, o, t.run.state)
	if algo.IsDiskError(err) {
		return nil, errext.With(errext.Disk, "", err)
	}
	return trainer, errext.With(errext.Input, "", err) // an option or a component is not valid
}
