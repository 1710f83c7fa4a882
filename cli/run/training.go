package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/agent/remote"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/reward"
	"github.com/openmanus/openmanus/reward/external"
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

// trainingEnv is an environment of a training run. For a dump it has only
// training tasks.
type trainingEnv struct {
	*World
	cfg        configs.Env
	setup      agent.Setup // openSampler sets engine and renderer
	train, val []data.Task
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
	if err := t.sendWeights(ctx, t.bundle.Model); err != nil {
		return t, err
	}
	if err := t.shard(ctx, t.bundle.Model, false); err != nil {
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

func (t *training) close() error { return t.open.Close() }

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

// openScorer opens the score functions of reinforcement learning.
func (t *training) openScorer(ctx context.Context) error {
	if t.mode != reinforced {
		return nil
	}
	train, val := t.tasks()
	err := checkGroundTruth(t.cfg.Reward, slices.Concat(train, val))
	if err != nil {
		return err
	}
	rewardModel := func() (reward.Scorer, error) {
		var opening []data.Message
		if t.dump == nil && len(t.envs) > 0 { // environments of a dump have no setup
			if opening, err = agent.Opening("Instruction.", "Observation.", t.envs[0].setup.Options.InstructionRole); err != nil {
				return nil, err
			}
		}
		m, err := openRewardModel(ctx, t.host, t.thread, t.compute, t.cfg.Reward, opening, func(m *model.Model) error { return t.shard(ctx, m, true) })
		if err != nil {
			return nil, err
		}
		t.rewardBytes += m.Bytes()
		return m, nil
	}
	if t.scorer, err = openComposer(t.host, t.cfg.Reward, rewardModel); err != nil || t.scorer == nil {
		return err
	}
	t.open.Add(t.scorer.Close)
	return t.startScorer(ctx)
}

// startScorer starts the programs of score functions, or returns an error if a program
// has ended. It is called before the model is loaded, and again before the
// first episode.
func (t *training) startScorer(ctx context.Context) error {
	if t.scorer == nil {
		return nil
	}
	for _, c := range t.scorer.Components {
		if p, ok := c.Scorer.(external.Starter); ok {
			if err := p.Start(ctx); err != nil {
				return errext.With(errext.Env, "run the command of the program in a shell to find the cause", fmt.Errorf("reward component %s: %w", c.Name, err))
			}
		}
	}
	return nil
}

// openModel loads or initialises the weights.
func (t *training) openModel(ctx context.Context) error {
	cfg := t.cfg
	var err error
	if cfg.Model.Fresh.Layers > 0 && t.run.checkpoint == nil {
		t.bundle, err = FreshModel(ctx, t.thread, cfg.Model.Fresh, cfg.Rollout.MaxContextTokens, cfg.Trainer.Seed, slices.Concat(t.walks, t.experts))
	} else {
		t.bundle, err = t.openWeights(ctx)
	}
	if err != nil {
		return err
	}
	if err := errors.Join(t.replaceTokenizer(), setTemplate(t.host, t.bundle, cfg.Model)); err != nil {
		t.bundle.Close()
		return err
	}
	t.open.AddFunc(func() {
		if t.actor == nil { // which closes the model
			t.bundle.Close()
		}
	})
	return nil
}

// openActor makes the actor of the model, and loads the optimiser state of a checkpoint.
func (t *training) openActor(ctx context.Context) (err error) {
	cfg := t.cfg
	if !t.host.Ranks.Trains() {
		return t.openFollower(ctx)
	}
	optimizer := adamW(cfg.Actor.Optim)
	if t.mode == supervised || t.run.inWarmStart() {
		optimizer = adamW(cfg.SFT.Optim)
	}
	if t.actor, err = learner.NewActor(ctx, t.bundle.Model, t.compute, optimizer); err != nil {
		return errext.With(errext.Native, "", err)
	}
	t.open.AddFunc(t.actor.Close)
	t.actor.SetGradientCheckpointing(cfg.Model.GradientCheckpointing)
	t.actor.SetDropoutSeed(cfg.Trainer.Seed)
	t.actor.OnBadStep(t.keepBadStep)
	if t.run.checkpoint != nil {
		if err := t.actor.LoadOptimizer(ctx, t.run.checkpoint.Path); err != nil {
			return errext.With(errext.Disk, "", err)
		}
	}
	return nil
}

// keepBadStep writes a skipped optimiser step to the run folder.
func (t *training) keepBadStep(b learner.BadStep) error {
	if !t.host.Ranks.First() { // rank 0 has the same rows
		return nil
	}
	return b.Write(t.run.BadSteps())
}

// replaceTokenizer installs the tokenizer of model.tokenizer_path.
func (t *training) replaceTokenizer() error {
	if t.cfg.Model.TokenizerPath == "" {
		return nil
	}
	dir := ModelPath(t.host, t.cfg.Model.TokenizerPath)
	tok, err := tokenizer.Load(dir)
	if n := t.bundle.Model.Config.VocabSize; err == nil && tok.Size() > n {
		err = fmt.Errorf("the tokenizer has %d tokens, but the model has only %d", tok.Size(), n)
	}
	if err == nil {
		t.bundle.Tokenizer = tok
		t.bundle.TokenizerConfig, err = tokenizer.LoadConfig(dir)
	}
	if err != nil {
		return errext.With(errext.Model, "", fmt.Errorf("model.tokenizer_path: %w", err))
	}
	return nil
}

// openSampler opens the engine on the actor's weights and completes the setups
// of the environments.
func (t *training) openSampler(ctx context.Context) error {
	cfg := t.cfg
	maxContext := cfg.Rollout.MaxContextTokens
	switch most := t.bundle.Model.Config.MaxPositionEmbeddings; {
	case maxContext <= most:
	case !t.playsAny(): // no session is opened
		maxContext = most
	default:
		return errext.With(errext.Input, fmt.Sprintf("set rollout.max_context_tokens to %d or less", most),
			fmt.Errorf("the model has %d positions, rollout.max_context_tokens is %d", most, cfg.Rollout.MaxContextTokens))
	}
	_, processes := t.host.Ranks.Local() // which share the host's memory
	share := "rollout.kv_cache_fraction"
	if !t.thread.Device().IsCPU() {
		share = "rollout.gpu_memory_utilization"
	}
	generator, err := t.generator(ctx)
	if err != nil {
		return err
	}
	t.sampler, err = NewSampler(ctx, t.bundle, generator, SamplerOptions{
		Sequences:     t.sessions(),
		MaxContext:    maxContext,
		PrefillTokens: cfg.Rollout.MaxBatchTokens,
		NoSharing:     !cfg.Rollout.PrefixCaching,
		Deterministic: cfg.Rollout.Deterministic,
		MemoryShare:   cfg.Rollout.KVCacheFraction / float64(max(1, processes)),
		Utilization:   cfg.Rollout.GPUUtilization,
		Hint:          "lower rollout.max_sequences or rollout.max_context_tokens, or raise " + share,
		Day:           t.day(),
	})
	if err != nil {
		return err
	}
	t.open.AddFunc(t.sampler.Close)
	if !t.thread.Device().IsCPU() {
		t.host.Log.Info("KV cache", "bytes", t.sampler.KVBytes)
	}
	for _, e := range t.envs {
		e.setup.Engine, e.setup.Renderer = t.sampler.Scheduler, t.sampler.Renderer
	}
	return nil
}

// day returns the date on which the run began, so that prompts with a date stay
// the same after a resume.
func (t *training) day() time.Time {
	if t.run.state == nil {
		return cmp.Or(t.run.began, t.host.Now())
	}
	return PromptDay(t.host, t.run.state.Day)
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

// sessions returns the maximum number of concurrent sessions. It is 1 if the run
// plays nothing, since the engine needs at least one.
func (t *training) sessions() int {
	if player, _ := t.host.Ranks.Player(); player < 0 || !t.playsAny() {
		return 1
	}
	return rolloutOptions(t.host, t.cfg).Concurrency
}

// reference loads the reference policy of the KL, or returns nil if the run has
// none.
func (t *training) reference(ctx context.Context) (*model.Model, error) {
	if !t.cfg.UsesReference() || t.mode == supervised || !t.host.Ranks.Trains() {
		return nil, nil
	}
	path, frozen := cmp.Or(t.cfg.Ref.Path, t.cfg.Model.Path), t.freezesReference()
	switch {
	case t.cfg.Model.LoRARank > 0 && t.cfg.Ref.Path == "":
		return t.frozenReference(ctx)
	case frozen && t.run.state != nil && t.run.state.WarmStarted:
		path = t.run.Reference()
	case frozen, t.cfg.Ref.Path == "" && t.run.checkpoint == nil: // the trainer replaces the copy after a warm start
		m, err := t.bundle.Model.Shadow(ctx, t.compute)
		if err != nil {
			return nil, errext.With(errext.Native, "", err)
		}
		t.open.AddFunc(m.Close)
		return m, nil
	}
	b, err := openWeights(ctx, t.host, t.thread, path, model.Options{DType: t.compute})
	if err != nil {
		return nil, errext.With(errext.Model, "", fmt.Errorf("reference: %w", err))
	}
	t.open.AddFunc(b.Close)
	return b.Model, nil
}

// freezesReference reports whether the reference of the KL is a copy of the
// model before the first step, instead of weights in a folder.
func (t *training) freezesReference() bool {
	return t.mode == reinforced && t.cfg.UsesReference() && t.cfg.Ref.Path == "" && (t.cfg.SFT.Epochs > 0 || t.cfg.Model.Fresh.Layers > 0)
}

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
	group := t.host.Ranks.Trainers()
	o.Policy.Micro.Group, o.RefMicro.Group = group, group
	if o.Critic != nil {
		o.Critic.Micro.Group = group
	}
	if t.warm != nil {
		t.warm.Micro.Group = group
	}
	o.FreezeReference = t.freezesReference()
	if o.WarmStart = t.warm; t.mode == supervised {
		o.Method, o.WarmStart, o.AsyncSteps = algo.Supervised{SFTOptions: *t.warm}, nil, 0
	}
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
	if ref != nil && !ref.HasLoRA() && t.cfg.Model.LoRARank == 0 { // with adapters it is on the policy's weights
		if err := t.shard(ctx, ref, true); err != nil {
			return nil, err
		}
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

// metrics opens metrics.jsonl and the sinks of log.backends. It removes the lines of
// steps after the checkpoint, which will be repeated.
func (t *training) metrics(ctx context.Context) (track.File, error) {
	if t.sink != nil || !t.host.Ranks.First() {
		return t.sink, nil
	}
	file, err := track.OpenJSONL(t.run.Metrics())
	if err != nil {
		return nil, errext.With(errext.Disk, "", err)
	}
	var offset int64
	if t.run.state != nil {
		offset = t.run.state.MetricsOffset
	}
	if err := file.TruncateTo(offset); err != nil {
		return nil, errors.Join(errext.With(errext.Disk, "", err), file.Close())
	}
	tracked, err := t.host.Tracked(t.run.Folder)
	if err != nil {
		return nil, errors.Join(errext.With(errext.Disk, "", err), file.Close())
	}
	tracked.Ended = func() track.End { return t.ended }
	// Close ends the background work of sinks, which send the last lines also after an interrupt.
	sink, err := track.With(context.WithoutCancel(ctx), file, tracked, t.cfg.Log.Backends)
	if err != nil {
		code := errext.Input
		if algo.IsDiskError(err) {
			code = errext.Disk
		}
		return nil, errors.Join(errext.With(code, "", err), file.Close())
	}
	t.open.Add(sink.Close)
	t.sink = sink
	return sink, nil
}
