package run

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/configs/vocabulary"
	"github.com/openmanus/openmanus/internal/errext"
)

// Schema knows every configuration key of this program.
var Schema = configs.New(vocabulary.New())

// mode is which of its algorithms a trainer runs.
type mode int

const (
	reinforced mode = iota
	supervised
)

// Run is a checked configuration and the host that it runs on. Its methods
// open what they need and close it before they return. They must not be
// called concurrently.
type Run struct {
	host Host
	cfg  configs.Config
}

// Open checks that the device of cfg exists and resolves model.compute_dtype.
// cfg comes from Schema.Load or Schema.LoadPreset. Fields of host that are
// nil get defaults: the environment and the clock of the process, and no log
// and no progress.
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
	Config configs.Config // with the resolved values that the run folder's config.toml holds
	Folder *rundir.Folder
	State  rundir.State
	// AlreadyDone is set if the run had done all its steps before; then nothing
	// was trained.
	AlreadyDone bool
}

// Actor returns the folder of the newest weights.
func (r *Result) Actor() string {
	return filepath.Join(r.Folder.Checkpoints(), fmt.Sprintf("step_%06d", r.State.Step), rundir.ActorFolder)
}

// Fit trains by reinforcement learning, after the warm start of [sft] if there
// is one. It resumes the run of the configuration's folder as trainer.resume
// asks. When soft ends, Fit finishes the step in progress, saves a checkpoint
// and returns errext.ErrInterrupted; when ctx ends, it returns as soon as it can.
func (r *Run) Fit(ctx, soft context.Context) (*Result, error) {
	if len(r.cfg.Env) == 0 {
		return nil, ErrNoEnv()
	}
	cfg := r.cfg
	if cfg.Data.FromDump != "" { // not the folder of a run of the same file that plays
		cfg.Trainer.Experiment = experimentName(cfg) + "-dump"
	}
	return r.train(ctx, soft, cfg, reinforced)
}

// SFT trains on recorded conversations alone, as [sft] describes. It stops
// where the warm start of Fit ends, and has a run folder of its own. ctx and
// soft are those of Fit.
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

// train opens the run folder and everything that is trained with, and trains.
func (r *Run) train(ctx, soft context.Context, cfg configs.Config, m mode) (result *Result, err error) {
	if cfg.Rollout.Engine != "local" {
		return nil, errext.With(errext.Input, `set rollout.engine = "local" to train; openmanus eval and rollout take this configuration`,
			fmt.Errorf("rollout.engine = %q cannot be trained with: an endpoint returns text without the token ids and log-probs that an update needs", cfg.Rollout.Engine))
	}
	h := r.host // keepLog replaces its Log
	for _, d := range cfg.Derived {
		h.Log.Info("setting derived from the others", "key", d.Key, "value", d.Value, "reason", d.Default+" does not fit "+d.Reason)
	}
	folder, err := openRun(ctx, &h, cfg, m)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, folder.end(soft, &h, err)) }()
	endLog, err := keepLog(&h, folder.folder.Log())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, endLog(err)) }()
	result = &Result{Config: cfg, Folder: folder.folder}
	if folder.finished(cfg, m) {
		result.State, result.AlreadyDone = *folder.state, true
		return result, nil
	}
	if err := h.WriteFile(folder.folder.Config(), cfg.Marshal(), true); err != nil {
		return nil, errext.With(errext.Disk, "", err)
	}
	h.Log.Info("run", "folder", folder.folder.Dir, "state", folder.describe())

	t, err := openTraining(ctx, &h, cfg, folder, m)
	defer func() { err = errors.Join(err, t.close()) }()
	if err != nil {
		return nil, err
	}
	if err := t.openSampler(ctx); err != nil {
		return nil, err
	}
	if err := t.render(); err != nil {
		return nil, err
	}
	if err := t.read(ctx, soft, readingEvents{h.Events}); err != nil {
		return nil, err
	}
	trainer, err := t.trainer(ctx, h.Events)
	if err != nil {
		return nil, err
	}
	if err := t.startScorer(ctx); err != nil {
		return nil, err
	}
	if err := trainer.Fit(ctx, soft); err != nil {
		return nil, trainError(folder, err)
	}
	result.State = trainer.State()
	return result, nil
}

// ErrNoEnv is the error of a configuration without an environment to play in.
func ErrNoEnv() error {
	return errext.With(errext.Input, "add a table [[env]] with name and tasks; `openmanus sft` takes the configuration as it is",
		errors.New("env: no environment to play in"))
}
