package run

import (
	"context"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/remote"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
)

// trainingEnv is an environment of a training run. For a dump it has only
// training tasks.
type trainingEnv struct {
	*World
	cfg        configs.Env
	setup      agent.Setup // openSampler sets engine and renderer
	train, val []data.Task
}

// tasks returns the tasks of all environments.
func (t *training) tasks() (train, val []data.Task) {
	for _, e := range t.envs {
		train, val = append(train, e.train...), append(val, e.val...)
	}
	return train, val
}

// openEnvs opens the dump of data.from_dump, or else the environments.
func (t *training) openEnvs(ctx context.Context) error {
	if t.cfg.Data.FromDump != "" {
		return t.openDump(ctx)
	}
	for _, e := range t.cfg.Env {
		if err := t.openEnv(ctx, e); err != nil {
			return err
		}
	}
	train, val := t.tasks()
	warnLeak(t.host, "trained on", train, val)
	return nil
}

// openEnv opens an environment, its format and its tasks.
func (t *training) openEnv(ctx context.Context, e configs.Env) error {
	w, setup, err := openSetup(ctx, t.host, &t.open, t.cfg, e, WorldOptions{Logs: t.run.Servers(), SpecOnly: !t.plays(e)})
	if err != nil {
		return err
	}
	train, err := LoadTasks(ctx, t.host, w.Spec, ConfiguredTasks(e, "tasks", e.Tasks, t.cfg.Data.TrainLimit, t.cfg.Data))
	if err != nil {
		return err
	}
	val, err := LoadTasks(ctx, t.host, w.Spec, ConfiguredTasks(e, "val_tasks", e.ValTasks, t.cfg.Data.ValLimit, t.cfg.Data))
	if err != nil {
		return err
	}
	t.envs = append(t.envs, &trainingEnv{w, e, setup, train, val})
	return nil
}

// trainerEnvs returns the environments for the trainer.
func (t *training) trainerEnvs() []algo.Env {
	var out []algo.Env
	switch {
	case t.servesAgents(): // the order of tasks needs one, which is never drawn
		out = append(out, algo.Env{Name: remote.Env, Weight: 1, TrainTasks: []data.Task{{ID: remote.Env, Env: remote.Env, Index: data.NoIndex}}})
	case len(t.envs) == 0: // supervised training draws no tasks, but the trainer needs their number
		return []algo.Env{{Name: noEnv, Weight: 1, TrainTasks: t.experts}}
	}
	for _, e := range t.envs {
		a := algo.Env{Name: e.cfg.Called(), Weight: e.cfg.Weight, TrainTasks: e.train, ValTasks: e.val}
		if e.Pool != nil {
			a.Train = rollout.Env{Pool: e.Pool, Setup: e.setup}
			a.Val = a.Train
			a.Val.Setup.Options = valOptions(e.setup.Options, t.cfg.Rollout.Val)
		}
		out = append(out, a)
	}
	return out
}

// plays reports whether the run plays episodes in an environment. Supervised
// training plays val_tasks, expert_tasks and the walks of a fresh model.
func (t *training) plays(e configs.Env) bool {
	fresh := t.cfg.Model.Fresh
	if player, _ := t.host.Ranks.Player(); player < 0 { // rank 0 plays for the supervised training
		return t.host.Ranks.First() && (len(e.ExpertTasks) > 0 || fresh.Layers > 0 && fresh.Walks > 0 && t.run.checkpoint == nil)
	}
	return t.mode != supervised || len(e.ValTasks) > 0 || len(e.ExpertTasks) > 0 ||
		fresh.Layers > 0 && fresh.Walks > 0 && t.run.checkpoint == nil
}
