package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/openmanus/openmanus/agent/remote"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/rundir/checkpoint"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data/crash"
	"github.com/openmanus/openmanus/internal/errext"
)

// runFolder is a locked run folder and the checkpoint that the run resumes.
type runFolder struct {
	*rundir.Folder
	lock       *checkpoint.Lock       // nil on ranks other than 0
	checkpoint *checkpoint.Checkpoint // nil: the run starts at step 0
	state      *rundir.State          // state of checkpoint
	lengthened bool                   // the number of steps or epochs differs from the checkpoint's
	began      time.Time              // on rank 0; the zero time if it has no other ranks
	configured bool                   // the folder had a config.toml when it was opened
}

// maxSavedConfig bounds the size in bytes of a checkpoint's configuration.
const maxSavedConfig = 4 << 20

// openRunFolder creates or opens the run folder of a configuration, locks it,
// removes unfinished checkpoints, and selects the checkpoint to resume.
func openRunFolder(ctx context.Context, h *Host, cfg configs.Config, m mode) (*runFolder, error) {
	if err := crash.Check(); err != nil {
		return nil, errext.With(errext.Input, "unset it", err)
	}
	root := h.Path(cfg.Trainer.OutputDir)
	name := runName(cfg)
	if cfg.Trainer.Resume == "never" {
		name = freeName(h, root, name)
	}
	r := &runFolder{Folder: newFolder(h, cfg, name)}
	if err := r.Make(); err != nil {
		return nil, errext.With(errext.Disk, "set trainer.output_dir to a folder that can be written", err)
	}
	var err error
	if r.lock, err = checkpoint.AcquireLock(r.Dir); err != nil {
		hint := ""
		if errors.Is(err, fs.ErrPermission) {
			hint = "the run may belong to another user: change its owner (chown -R), give this run another trainer.experiment, or set trainer.output_dir to a folder of your own"
		}
		return nil, errext.With(errext.Disk, hint, err)
	}
	_, err = h.Stat(r.Config())
	r.configured = err == nil
	if err := r.resume(ctx, h, cfg, m); err != nil {
		return nil, errors.Join(err, r.end(ctx, h, err))
	}
	return r, nil
}

// newFolder returns the run folder with the given name in trainer.output_dir.
func newFolder(h *Host, cfg configs.Config, name string) *rundir.Folder {
	return &rundir.Folder{
		Dir: filepath.Join(h.Path(cfg.Trainer.OutputDir), name), KeepRollouts: cfg.Trainer.KeepRollouts, CompressRollouts: cfg.Trainer.CompressRollouts,
	}
}

// end unlocks the run folder. If outcome is an error and nothing was saved, it also
// removes the folder, unless the folder had a config.toml before the run (perhaps
// the user's), or has logs of servers that failed.
func (r *runFolder) end(ctx context.Context, h *Host, outcome error) error {
	if r.lock == nil { // rank 0 has the lock
		return nil
	}
	if outcome == nil || r.configured {
		return r.lock.Release()
	}
	cleared, err := r.Clear(CodeOf(ctx, outcome) == errext.Env)
	if err != nil || !cleared {
		return errors.Join(err, r.lock.Release())
	}
	h.Log.Info("run folder removed: the start failed before anything was saved", "folder", r.Dir)
	return r.lock.Remove()
}

// resume selects the checkpoint to resume, and sets newer checkpoints aside.
func (r *runFolder) resume(ctx context.Context, h *Host, cfg configs.Config, m mode) error {
	removed, err := checkpoint.Clean(r.Checkpoints())
	if err != nil {
		return errext.With(errext.Disk, "", err)
	}
	for _, name := range removed {
		h.Log.Info("removed an unfinished checkpoint", "name", name)
	}
	switch cfg.Trainer.Resume {
	case "never":
		return nil
	case "auto":
		found, damaged, err := checkpoint.Latest(ctx, r.Checkpoints())
		for _, bad := range damaged {
			h.Log.Warn("checkpoint is damaged", "error", bad)
		}
		if errors.Is(err, checkpoint.ErrNone) && len(damaged) == 0 {
			return r.begin(h)
		}
		if err != nil {
			return errext.With(errext.Disk, "remove damaged checkpoints to start from the beginning", err)
		}
		r.checkpoint = found
	default:
		path := h.Path(cfg.Trainer.Resume)
		if real, err := filepath.EvalSymlinks(path); err == nil { // latest and best are links
			path = real
		}
		found, err := checkpoint.Open(ctx, path)
		if err != nil {
			return errext.With(errext.Disk, "set trainer.resume to a checkpoint folder, auto or never", err)
		}
		if !r.Owns(found.Path) {
			return errext.With(errext.Input, "to start a new run from the weights of this checkpoint, set model.path to its actor folder",
				fmt.Errorf("trainer.resume: %s is not a checkpoint of this run; its checkpoints are in %s", found.Path, r.Checkpoints()))
		}
		r.checkpoint = found
	}
	st, err := rundir.ReadState(r.checkpoint.Path)
	if err != nil {
		return errext.With(errext.Disk, "", err)
	}
	r.state = &st
	if err := r.checkExperiment(h, cfg, m); err != nil {
		return err
	}
	dir, steps, err := r.SetAside(r.state.Step)
	if err != nil {
		return errext.With(errext.Disk, "", err)
	}
	if len(steps) > 0 {
		h.Log.Warn("newer checkpoints are set aside; trainer.resume=auto now resumes this run",
			"step", r.state.Step, "set_aside", steps, "folder", dir)
	}
	return nil
}

// begin prepares a run that starts at step 0. It sets the records of an earlier run in the folder aside.
func (r *runFolder) begin(h *Host) error {
	dir, err := r.SetAsideRecords()
	if err != nil {
		return errext.With(errext.Disk, "set trainer.experiment to another name", err)
	}
	if dir != "" {
		h.Log.Warn("the run folder has no checkpoint: the run begins again, and the metrics and episodes of the earlier steps are set aside", "folder", dir)
	}
	return nil
}

// checkExperiment returns an error if a setting that changes the result of training
// differs from the setting in the checkpoint. It logs differences in other settings.
func (r *runFolder) checkExperiment(h *Host, cfg configs.Config, m mode) error {
	if r.state.Supervised != (m == supervised) {
		return errext.With(errext.Input, "to start from the weights of the checkpoint, set model.path to its actor folder, and trainer.experiment to another name",
			fmt.Errorf("checkpoint %s was written by openmanus %s", r.checkpoint.Path, map[bool]string{true: "sft", false: "train"}[r.state.Supervised]))
	}
	path := r.checkpoint.File(rundir.ConfigFile)
	text, err := h.ReadFile(path, maxSavedConfig)
	if err != nil {
		return errext.With(errext.Disk, "", err)
	}
	was, err := Schema.LoadSaved(path, text)
	if err != nil {
		return errext.With(errext.Input, "", fmt.Errorf("configuration of the checkpoint: %w", err))
	}
	var refused []string
	for _, c := range configs.Diff(was, cfg) {
		lengthens := m == supervised && (c.Key == "sft.epochs" || c.Key == "sft.total_steps")
		r.lengthened = r.lengthened || lengthens || m == reinforced && (c.Key == "trainer.epochs" || c.Key == "trainer.total_steps")
		if c.Free || lengthens {
			h.Log.Info("changed since the checkpoint", "key", c.Key, "was", c.Old, "now", c.New)
			continue
		}
		refused = append(refused, "  "+c.String())
	}
	if len(refused) == 0 {
		return nil
	}
	return errext.With(errext.Input, "", fmt.Errorf("the configuration differs from the configuration of the checkpoint %s:\n%s\n"+
		"restore these settings to resume, or give trainer.experiment another name to train anew; to start from these weights, also %s",
		r.checkpoint.Path, strings.Join(refused, "\n"), weightsAdvice(cfg, m)))
}

// weightsAdvice returns the settings that start a new run from a checkpoint's
// weights.
func weightsAdvice(cfg configs.Config, m mode) string {
	advice := "set model.path to the checkpoint's actor folder"
	if cfg.Model.Fresh.Layers > 0 {
		advice += ", model.fresh.layers = 0"
	}
	if m == reinforced && cfg.SFT.Epochs > 0 { // the weights already include the warm start
		advice += ", sft.epochs = 0"
	}
	return advice
}

// experimentName returns trainer.experiment, or else a name made of project,
// model and environments.
func experimentName(cfg configs.Config) string {
	if cfg.Trainer.Experiment != "" {
		return cfg.Trainer.Experiment
	}
	name := cfg.Trainer.Project
	if cfg.Model.Path != "" {
		name += "-" + filepath.Base(cfg.Model.Path)
	}
	if cfg.Serve.Listen != "" {
		name += "-" + remote.Env
	}
	for _, e := range cfg.Env {
		name += "-" + e.Called()
	}
	return name
}

// runName returns the name of the run folder in trainer.output_dir.
func runName(cfg configs.Config) string {
	name := experimentName(cfg)
	if cfg.Trainer.ExperimentSuffix != "" {
		name += "_" + cfg.Trainer.ExperimentSuffix
	}
	return name
}

// freeName returns name, with a number appended if the folder exists.
func freeName(h *Host, root, name string) string {
	for n, try := 2, name; ; n++ {
		if _, err := h.Stat(filepath.Join(root, try)); err != nil {
			return try
		}
		try = name + "-" + strconv.Itoa(n)
	}
}

// finished reports whether the run has done all its steps.
func (r *runFolder) finished(cfg configs.Config, m mode) bool {
	return r.state != nil && r.state.Finished && (!r.lengthened || m == reinforced && cfg.Trainer.TotalSteps > 0 && r.state.Step >= cfg.Trainer.TotalSteps)
}

// inWarmStart reports whether the checkpoint was saved during a warm start, with
// the optimiser state of [sft].
func (r *runFolder) inWarmStart() bool {
	return r.state != nil && !r.state.WarmStarted && !r.state.Supervised
}

// modelPath returns the folder of the weights: the checkpoint's, or else the
// configuration's.
func (r *runFolder) modelPath(cfg configs.Config) string {
	if r.checkpoint != nil {
		return filepath.Join(r.checkpoint.Path, rundir.ActorFolder)
	}
	return cfg.Model.Path
}

func (r *runFolder) describe() string {
	if r.state == nil {
		return "starting at step 0"
	}
	return fmt.Sprintf("resuming after step %d", r.state.Step)
}

// keepLog copies the log to a file of JSON lines. The file has at least the levels
// from info on, even if h.Log shows fewer. The function end writes the outcome and stops the copy.
func keepLog(h *Host, path string) (end func(outcome error) error, err error) {
	f, err := h.Append(path)
	if err != nil {
		return nil, errext.With(errext.Disk, "", err)
	}
	shown := h.Log
	level := slog.LevelInfo
	if shown.Enabled(context.Background(), slog.LevelDebug) {
		level = slog.LevelDebug
	}
	file := slog.NewJSONHandler(f, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration { // write 1.5s instead of nanoseconds
			a.Value = slog.StringValue(a.Value.Duration().String())
		}
		return a
	}})
	h.Log = slog.New(slog.NewMultiHandler(shown.Handler(), file))
	return func(outcome error) error {
		h.Log = shown
		if outcome != nil {
			slog.New(file).Error("the run ended", "error", outcome)
		} else {
			slog.New(file).Info("the run ended")
		}
		return f.Close()
	}, nil
}
