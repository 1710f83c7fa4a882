package run

import (
	"context"
	"time"

	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
)

// trainer assembles the trainer.
func (t *training) trainer(ctx context.Context, events algo.Events) (*algo.Trainer, error) {
	tasks := 0
	for _, e := range t.envs {
		if e.cfg.Weight > 0 {
			tasks += len(e.train)
		}
	}
	o, err := trainerOptions(t.host, t.cfg, t.compute, tasks)
	if err != nil {
		return nil, err
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
			return nil, err
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
	ref, err := t.reference(ctx)
	if err != nil {
		return nil, err
	}
	named := ref
	if t.freezesReference() || t.cfg.Model.LoRARank > 0 && t.cfg.Ref.Path == "" {
		named = nil // the weights of the reference are in the run folder
	}
	inputs, err := t.inputDigests(ctx, named)
	if err != nil {
		return nil, err
	}
	if err := t.run.checkInputs(inputs); err != nil {
		return nil, err
	}
	if err := t.loadReference(ctx, ref); err != nil {
		return nil, err
	}
	critic, err := t.critic(ctx)
	if err != nil {
		return nil, err
	}
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
