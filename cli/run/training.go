package run

import (
	"context"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/agent/remote"
	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/reward"
	"github.com/openmanus/openmanus/torch"
)

// training holds the open parts of a training run. They are opened in the order
// of cost, so that errors appear early: configuration, servers, data, weights.
type training struct {
	host *Host
	cfg  configs.Config
	mode mode
	run  *runFolder
	open Closers

	thread        *torch.Thread
	compute       torch.DType
	envs          []*trainingEnv
	walks         []data.Task      // training text of a fresh model
	experts       []data.Task      // trajectories for supervised training
	recordedTasks []data.Task      // experts that were read from files
	heldOut       []data.Task      // trajectories of sft.val_files
	sftRows       []data.Row       // rows of the experts, for AgentEvol
	warm          *algo.SFTOptions // nil: no supervised training
	dump          *trainingDump    // nil: episodes are played

	scorer      *reward.Composer // nil: the environment's reward is the score
	rewardBytes int64            // size of the reward model of scorer
	bundle      *model.Bundle
	actor       *learner.Actor
	sampler     *Sampler
	part        *model.Model  // this rank's part of the model that generates; nil: the actor generates
	agents      *remote.Store // nil: the run plays its episodes itself
	sink        track.File    // writes metrics.jsonl; nil until metrics opens it
	ended       track.End     // set before close
}

// openTraining opens environments, data, model and optimiser. The caller closes
// the result, also after an error.
func openTraining(ctx context.Context, h *Host, cfg configs.Config, run *runFolder, m mode) (*training, error) {
	t := &training{host: h, cfg: cfg, run: run, mode: m}
	err := h.Ranks.Each(ctx, func() (err error) {
		if err = t.checkModels(ctx); err != nil {
			return err
		}
		rankModel := cfg.Model
		if rankModel.Device, err = rankDevice(h, cfg.Model.Device); err != nil {
			return err
		}
		t.thread, t.compute, err = openDevice(h, &t.open, rankModel)
		return err
	})
	if err != nil {
		return t, err
	}
	t.warnOffloadOnCPU()
	for _, part := range []struct {
		label string
		open  func(context.Context) error
	}{
		{"opening the environments", t.openEnvs}, {"opening the score functions", t.openScorer},
	} {
		if err := h.Ranks.Each(ctx, func() error { return h.during(part.label, func() error { return part.open(ctx) }) }); err != nil {
			return t, err
		}
	}
	if err := t.loadTrajectories(ctx); err != nil {
		return t, err
	}
	if err := h.Ranks.Each(ctx, func() error { return h.during("opening the model", func() error { return t.openModel(ctx) }) }); err != nil {
		return t, err
	}
	if err := h.during("loading the weights", func() error { return t.loadWeights(ctx) }); err != nil {
		return t, err
	}
	return t, h.Ranks.Each(ctx, func() error { return t.openActor(ctx) })
}

// loadTrajectories plays walks and collects the trajectories of supervised training on rank 0, so that all ranks have the same.
func (t *training) loadTrajectories(ctx context.Context) error {
	tasks, err := sharedTasks(ctx, t.host, func() (map[string][]data.Task, error) {
		if err := t.host.during("playing walks", func() error { return t.playWalks(ctx) }); err != nil {
			return nil, err
		}
		err := t.host.during("opening trajectories", func() error { return t.loadExperts(ctx) })
		return map[string][]data.Task{"walks": t.walks, "experts": t.experts, "recorded": t.recordedTasks, "heldOut": t.heldOut}, err
	})
	t.walks, t.experts, t.recordedTasks, t.heldOut = tasks["walks"], tasks["experts"], tasks["recorded"], tasks["heldOut"]
	return err
}

// close closes what the run has opened. A second call does nothing.
func (t *training) close() error {
	open := t.open
	t.open = nil
	return open.Close()
}
