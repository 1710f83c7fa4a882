package run

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/configs/vocabulary"
	"github.com/openmanus/openmanus/internal/errext"
)

// Schema holds every configuration key of the program.
var Schema = configs.New(vocabulary.New())

// mode is the kind of a training run.
type mode int

const (
	reinforced mode = iota // Fit
	supervised             // SFT
)

// Run is a configuration on a host. Its methods open servers, data and models
// and close them before they return. They must not be called concurrently.
type Run struct {
	host Host
	cfg  configs.Config
}

// Open checks that the device of cfg exists and resolves model.compute_dtype.
// cfg is a result of Schema.Load or Schema.LoadPreset. Nil fields of host
// get the defaults of Host.WithDefaults.
func Open(ctx context.Context, cfg configs.Config, host Host) (*Run, error) {
	r := &Run{host: host.WithDefaults(), cfg: cfg}
	var err error
	if r.cfg.Model.ComputeDtype, err = ComputeDtype(cfg.Model.ComputeDtype, cfg.Model.Device); err != nil {
		return nil, err
	}
	return r, context.Cause(ctx)
}

// Result is the outcome of Fit or SFT.
type Result struct {
	Config      configs.Config // the contents of config.toml in the run folder
	Folder      *rundir.Folder
	State       rundir.State
	AlreadyDone bool // an earlier call did all steps; this call trained nothing
}

// Actor returns the folder of the newest weights.
func (r *Result) Actor() string {
	return filepath.Join(r.Folder.Checkpoints(), fmt.Sprintf("step_%06d", r.State.Step), rundir.ActorFolder)
}

// Fit trains by reinforcement learning, after the warm start if [sft] has
// epochs. trainer.resume selects the checkpoint to resume. When soft ends, Fit
// finishes the step in progress, saves a checkpoint and returns errext.ErrInterrupted.
// When ctx ends, Fit returns as soon as possible.
func (r *Run) Fit(ctx, soft context.Context) (*Result, error) {
	if len(r.cfg.Env) == 0 && r.cfg.Serve.Listen == "" && r.cfg.Data.FromDump == "" {
		return nil, ErrNoEnv
	}
	cfg := r.cfg
	if cfg.Data.FromDump != "" { // use another folder than a run that plays
		cfg.Trainer.Experiment = experimentName(cfg) + "-dump"
	}
	return r.train(ctx, soft, cfg, reinforced)
}

// SFT trains on recorded conversations only, like the warm start of Fit, but in
// another run folder. See Fit for ctx and soft.
func (r *Run) SFT(ctx, soft context.Context) (*Result, error) {
	cfg := r.cfg
	if cfg.SFT.Epochs == 0 {
		return nil, errext.With(errext.Input, "set sft.epochs to at least 1", errors.New("sft.epochs is 0: nothing to train"))
	}
	suffix := "-sft"
	if cfg.Data.FromDump != "" {
		suffix = "-dump-sft"
	}
	cfg.Trainer.Experiment = experimentName(cfg) + suffix
	return r.train(ctx, soft, cfg, supervised)
}

// train opens the run folder, servers, data and models, and trains.
func (r *Run) train(ctx, soft context.Context, cfg configs.Config, m mode) (result *Result, err error) {
	if cfg.Rollout.Engine != "local" {
		return nil, errext.With(errext.Input, `set rollout.engine = "local" to train; openmanus eval and openmanus rollout accept this configuration`,
			fmt.Errorf("rollout.engine = %q: an endpoint cannot be trained: it returns text without the token ids and log-probs that an update needs", cfg.Rollout.Engine))
	}
	h := r.host // a copy, because keepLog replaces h.Log
	for _, d := range cfg.Derived {
		h.Log.Info("setting derived from others", "key", d.Key, "value", d.Value, "reason", d.Default+" does not fit "+d.Reason)
	}
	defer func() { err = h.Ranks.Settle(ctx, err) }()
	if err := assignWorkers(ctx, &h, cfg, m); err != nil {
		return nil, err
	}
	folder, err := openFolder(ctx, &h, cfg, m)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, folder.end(soft, &h, err)) }()
	endLog := func(error) error { return nil }
	err = h.Ranks.OnFirst(ctx, func() (err error) {
		endLog, err = keepLog(&h, folder.Log())
		return err
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, endLog(err)) }()
	result = &Result{Config: cfg, Folder: folder.Folder}
	if folder.finished(cfg, m) {
		result.State, result.AlreadyDone = *folder.state, true
		return result, nil
	}
	if err := h.Ranks.OnFirst(ctx, func() error { return h.WriteFile(folder.Config(), cfg.Marshal(), true) }); err != nil {
		return nil, err
	}
	h.Log.Info("run", "folder", folder.Dir, "state", folder.describe())
	if h.Opened != nil && h.Ranks.First() {
		h.Opened(folder.Folder)
	}

	err = onEachMachine(ctx, &h, func() error {
		_, err := folder.findModels(soft, &h, cfg) // an interrupt ends a download at once
		return err
	})
	if err != nil {
		return nil, err
	}
	starting := h.Progress("starting", 0)
	defer starting.Done()
	t, err := openTraining(ctx, &h, cfg, folder, m)
	defer func() {
		switch CodeOf(ctx, err) {
		case errext.OK:
		case errext.Interrupted:
			t.ended = track.Interrupted
		default:
			t.ended = track.Failed
		}
		err = errors.Join(err, t.close())
	}()
	if err != nil {
		return nil, err
	}
	if err := h.during("starting the engine", func() error { return t.openSampler(ctx) }); err != nil {
		return nil, err
	}
	if err := h.Ranks.Each(ctx, func() error { return h.during("rendering trajectories", t.renderExperts) }); err != nil {
		return nil, err
	}
	if h.Started != nil {
		h.Started()
	}
	if err := t.read(ctx, soft, readingEvents{h.Events}); err != nil {
		return nil, err
	}
	if err := h.Ranks.OnFirst(ctx, func() error { return t.openAgents(ctx, soft) }); err != nil {
		return nil, err
	}
	trainer, err := t.trainer(ctx, h.Events)
	if err != nil {
		return nil, err
	}
	if err := sameOnAll(ctx, &h, "the data", func() (string, error) { return t.sameData(trainer.State()) }); err != nil {
		return nil, err
	}
	starting.Done()
	endServer := func() error { return nil }
	err = h.Ranks.OnFirst(ctx, func() (err error) {
		endServer, err = t.serveAgents(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = trainer.Fit(ctx, soft)
	if endErr := endServer(); err == nil {
		err = endErr
	}
	if err != nil {
		return nil, trainError(folder, err)
	}
	if err := h.Ranks.Finish(ctx, t.close); err != nil {
		return nil, err
	}
	result.State = trainer.State()
	return result, nil
}

// ErrNoEnv is the error of a configuration without an environment to play in.
var ErrNoEnv = errext.With(errext.Input, "add a table [[env]] with name and tasks; `openmanus sft` accepts the configuration without [[env]]",
	errors.New("env: no environment to play in"))
