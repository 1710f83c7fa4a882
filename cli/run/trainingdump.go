package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/data/table"
	"github.com/openmanus/openmanus/internal/errext"
)

// trainingDump is the dump of data.from_dump.
type trainingDump struct {
	path     string
	header   dump.Header
	episodes []*data.Episode   // nil for supervised training
	steps    [][]*data.Episode // episodes by training step
	tasks    []data.Task
}

// openDump reads the dump: conversations for supervised training, or groups of
// episodes for reinforcement learning.
func (t *training) openDump(ctx context.Context) error {
	d := &trainingDump{path: t.cfg.Data.FromDump}
	t.dump = d
	refused := map[string]int{}
	wanted := table.ConvertOptions{Success: t.cfg.SFT.DumpSuccess}
	if !wanted.Success {
		wanted.MinReward = &t.cfg.SFT.DumpMinReward
	}
	src, err := table.ReadSource(ctx, t.host.Path(d.path), func(e *table.Entry) error {
		ep := e.Episode
		if ep == nil {
			return errext.With(errext.Input, "name it under sft.files", fmt.Errorf("data.from_dump: %s is a data file, not a dump of episodes", d.path))
		}
		ep.Exchanges, ep.Created = nil, nil
		if t.mode == supervised {
			task, why, err := wanted.Refuses(e)
			if why != "" || err != nil {
				refused[why]++
				return err
			}
			t.experts = append(t.experts, withConversations(task, ep.Conversations())...)
			return nil
		}
		d.episodes = append(d.episodes, ep)
		return nil
	})
	if err != nil {
		return errext.WithDefault(errext.Input, fmt.Errorf("data.from_dump: %w", err))
	}
	if src.Torn {
		t.host.Log.Warn("the last line of the dump is incomplete and skipped", "file", d.path)
	}
	d.header = src.Header
	if t.mode == supervised {
		d.tasks = t.experts
		for _, why := range slices.Sorted(maps.Keys(refused)) {
			t.host.Log.Info("episodes skipped", "reason", why, "episodes", refused[why])
		}
		if len(t.experts) == 0 {
			return errext.With(errext.Input, "set sft.dump_success = false and a low sft.dump_min_reward, or roll out with a model that solves more",
				fmt.Errorf("data.from_dump: all episodes of %s are skipped", d.path))
		}
	} else if err := t.groupDump(); err != nil {
		return errext.With(errext.Input, "", err)
	}
	for _, task := range d.tasks { // add an environment without a server for each table
		i := slices.IndexFunc(t.envs, func(e *trainingEnv) bool { return e.cfg.Name == task.Table() })
		if i < 0 {
			i = len(t.envs)
			t.envs = append(t.envs, &trainingEnv{World: &World{}, cfg: configs.Env{Name: task.Table(), Weight: 1}})
		}
		t.envs[i].train = append(t.envs[i].train, task)
	}
	return nil
}

// groupDump groups the episodes into training steps. It returns an error if the
// run cannot be updated with them.
func (t *training) groupDump() (err error) {
	d, cfg := t.dump, t.cfg
	fault := func(format string, args ...any) error {
		return fmt.Errorf("data.from_dump: %s: "+format, append([]any{d.path}, args...)...)
	}
	if cfg.Evolves() {
		return fault("algo.name = \"agentevol\" does not learn from a dump: imitate its episodes with openmanus sft --from-dump")
	}
	if cfg.SFT.Epochs > 0 {
		return fault("a warm start changes the weights that played: set sft.epochs = 0")
	}
	played, err := readRecorded(d.header)
	if err == nil { // err is not nil for a dump of a training run, whose header has no settings
		switch o := played.Episode; {
		case o.Greedy:
			return fault("it was played greedily, so that all episodes of a task are equal: roll out without --greedy")
		case o.Temperature != float32(cfg.Rollout.Temperature):
			return fault("it was sampled at temperature %g, but rollout.temperature is %g: set the same temperature", o.Temperature, cfg.Rollout.Temperature)
		case (o.TopK > 0 || o.TopP > 0 && o.TopP < 1) && !cfg.Data.OffPolicy && !recordKeptTokens(d.episodes):
			return fault("it was sampled with top-k or top-p by a version that did not record the kept tokens: add --off-policy to train anyway")
		}
	} else if !cfg.Data.OffPolicy {
		return fault("%w; add --off-policy to train anyway", err)
	}
	if d.steps, err = algo.RecordedSteps(d.episodes, cfg.Data.TrainBatchSize); err != nil {
		return fault("%w", err)
	}
	seen := map[string]bool{}
	for _, e := range d.episodes {
		if !seen[e.UID] {
			seen[e.UID] = true
			d.tasks = append(d.tasks, e.Task)
		}
	}
	return nil
}

// recordKeptTokens reports whether every sampled token has a record of the
// tokens that top-k and top-p kept.
func recordKeptTokens(episodes []*data.Episode) bool {
	for _, e := range episodes {
		for i := range e.Turns {
			if t := &e.Turns[i]; t.Kept == nil && t.End > t.Start {
				return false
			}
		}
	}
	return true
}

// fromDump completes the options of a trainer that learns from a dump. This
// trainer trains on every group once, or for trainer.total_steps steps.
func (t *training) fromDump(ctx context.Context, o *algo.Options) error {
	d := t.dump
	if err := t.dumpFits(ctx); err != nil {
		return err
	}
	o.Method = algo.Recorded{Steps: d.steps, OffPolicy: t.cfg.Data.OffPolicy}
	o.Steps = len(d.steps)
	if most := t.cfg.Trainer.TotalSteps; most > 0 {
		o.Steps = min(o.Steps, most)
	}
	o.Schedule = schedule(t.cfg.Actor.Optim, o.Steps)
	t.host.Log.Info("training from a dump", "file", d.path, "episodes", len(d.episodes), "tasks", len(d.tasks), "steps", o.Steps)
	return nil
}

// dumpFits returns an error if the model cannot have played the dump. Without
// data.off_policy, it also returns an error if other weights played the dump.
func (t *training) dumpFits(ctx context.Context) error {
	c := &t.bundle.Model.Config
	for i, e := range t.dump.episodes {
		if err := e.CheckContexts(); err != nil {
			return errext.With(errext.Input, "record the dump again", fmt.Errorf("data.from_dump: %s: episode %d: %w", t.dump.path, i, err))
		}
		var err error
		for _, span := range e.ContextSpans() {
			err = errors.Join(err, c.CheckIDs(e.Tokens[span[0]:span[1]]))
		}
		if err != nil {
			return errext.With(errext.Input, "set model.path to the model that played", fmt.Errorf("data.from_dump: %s: episode %d: %w", t.dump.path, i, err))
		}
	}
	if t.cfg.Data.OffPolicy || t.run.checkpoint != nil { // other weights are allowed, or the resumed run has changed the weights
		return nil
	}
	hash, err := t.actor.Compute().Hash(ctx)
	if err != nil {
		return errext.With(errext.Native, "", err)
	}
	if want := t.dump.header.Weights; hash != want {
		want = cmp.Or(want, "unknown weights")
		return errext.With(errext.Input, "set model.path and model.compute_dtype to the values that played the dump (--model and --dtype of rollout), or add --off-policy",
			errors.New("data.from_dump: "+t.dump.path+" was played by "+want+", but the weights of this model are "+hash))
	}
	return nil
}
