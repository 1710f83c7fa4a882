package run

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"log/slog"

	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/rundir/checkpoint"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data/crash"
	"github.com/openmanus/openmanus/internal/errext"
)

// openedRun is a run folder that this process holds, and where it stands.
type openedRun struct {
	folder     *rundir.Folder
	lock       *checkpoint.Lock
	checkpoint *checkpoint.Checkpoint // to go on from; nil: from the beginning
	state      *rundir.State          // of that checkpoint
	lengthened bool                   // another number of steps or epochs than the checkpoint's
	configured bool                   // the folder had a config.toml before
}

// maxSavedConfig is more bytes than the configuration of a checkpoint has.
const maxSavedConfig = 4 << 20

// openRun finds the run folder of a configuration, locks it, removes what a
// killed process left half done, and decides what to go on from.
func openRun(ctx context.Context, h *Host, cfg configs.Config, m mode) (*openedRun, error) {
	if err := crash.Check(); err != nil {
		return nil, errext.With(errext.Input, "unset it", err)
	}
	root := h.Path(cfg.Trainer.OutputDir)
	name := runName(cfg)
	if cfg.Trainer.Resume == "never" {
		name = freeName(h, root, name)
	}
	r := &openedRun{folder: &rundir.Folder{
		Dir: filepath.Join(root, name), KeepRollouts: cfg.Trainer.KeepRollouts, CompressRollouts: cfg.Trainer.CompressRollouts,
	}}
	if err := r.folder.Make(); err != nil {
		return nil, errext.With(errext.Disk, "set trainer.output_dir to a folder that can be written", err)
	}
	var err error
	if r.lock, err = checkpoint.AcquireLock(r.folder.Dir); err != nil {
		return nil, errext.With(errext.Disk, "", err)
	}
	_, err = h.Stat(r.folder.Config())
	r.configured = err == nil
	if err := r.resume(ctx, h, cfg, m); err != nil {
		return nil, errors.Join(err, r.end(ctx, h, err))
	}
	return r, nil
}

// end gives the run folder back. A start that failed before anything was saved
// leaves no folder, with two exceptions: the folder had a config.toml before,
// which may be the user's, or the servers failed and left logs in it.
func (r *openedRun) end(ctx context.Context, h *Host, outcome error) error {
	if outcome == nil || r.configured {
		return r.lock.Release()
	}
	cleared, err := r.folder.Clear(CodeOf(ctx, outcome) == errext.Env)
	if err != nil || !cleared {
		return errors.Join(err, r.lock.Release())
	}
	h.Log.Info("run folder removed: the start failed before anything was saved", "folder", r.folder.Dir)
	return r.lock.Remove()
}

func (r *openedRun) resume(ctx context.Context, h *Host, cfg configs.Config, m mode) error {
	removed, err := checkpoint.Clean(r.folder.Checkpoints())
	if err != nil {
		return errext.With(errext.Disk, "", err)
	}
	for _, name := range removed {
		h.Log.Info("removed what an interrupted save left", "name", name)
	}
	switch cfg.Trainer.Resume {
	case "never":
		return nil
	case "auto":
		found, refused, err := checkpoint.Latest(ctx, r.folder.Checkpoints())
		for _, bad := range refused {
			h.Log.Warn("checkpoint refused", "path", bad.Path, "reason", bad.Err)
		}
		if errors.Is(err, checkpoint.ErrNone) {
			if len(refused) > 0 {
				return errext.With(errext.Disk, "remove the damaged folders to start from the beginning", err)
			}
			return nil
		}
		if err != nil {
			return errext.With(errext.Disk, "", err)
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
		if !r.folder.Owns(found.Path) {
			return errext.With(errext.Input, "to start a new run from its weights, set model.path to its actor folder instead",
				fmt.Errorf("trainer.resume: %s is not a checkpoint of this run, whose are in %s", found.Path, r.folder.Checkpoints()))
		}
		r.checkpoint = found
	}
	st, err := rundir.ReadState(r.checkpoint.Path)
	if err != nil {
		return errext.With(errext.Disk, "", err)
	}
	r.state = &st
	if err := r.sameExperiment(h, cfg, m); err != nil {
		return err
	}
	return r.setAside(h)
}

// sameExperiment refuses to go on with other settings than the checkpoint's
// where these are part of the experiment, and tells of the others.
func (r *openedRun) sameExperiment(h *Host, cfg configs.Config, m mode) error {
	if r.state.Supervised != (m == supervised) {
		return errext.With(errext.Input, "to start from its weights, set model.path to its actor folder, and trainer.experiment to another name",
			fmt.Errorf("checkpoint %s was made by openmanus %s", r.checkpoint.Path, map[bool]string{true: "sft", false: "train"}[r.state.Supervised]))
	}
	path := r.checkpoint.File(rundir.ConfigFile)
	text, err := h.ReadFile(path, maxSavedConfig)
	if err != nil {
		return errext.With(errext.Disk, "", err)
	}
	was, err := Schema.LoadSaved(path, text)
	if err != nil {
		return errext.With(errext.Input, "", fmt.Errorf("the checkpoint's configuration, to compare with: %w", err))
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
	return errext.With(errext.Input, "", fmt.Errorf("the configuration is not that of the checkpoint %s:\n%s\n"+
		"set these back to go on, or give trainer.experiment another name to train anew; to start from these weights, also %s",
		r.checkpoint.Path, strings.Join(refused, "\n"), startFrom(cfg, m)))
}

// startFrom says which settings begin a run with a checkpoint's weights.
func startFrom(cfg configs.Config, m mode) string {
	set := []string{"set model.path to the checkpoint's actor folder"}
	if cfg.Model.Fresh.Layers > 0 {
		set = append(set, "model.fresh.layers = 0")
	}
	if m == reinforced && cfg.SFT.Epochs > 0 { // the warm start is in these weights
		set = append(set, "sft.epochs = 0")
	}
	if n := len(set); n > 1 {
		return strings.Join(set[:n-1], ", ") + " and " + set[n-1]
	}
	return set[0]
}

// setAside keeps newer checkpoints than the one to go on from out of the way.
func (r *openedRun) setAside(h *Host) error {
	dir, steps, err := r.folder.SetAside(r.state.Step)
	if err != nil {
		return errext.With(errext.Disk, "", err)
	}
	if len(steps) > 0 {
		h.Log.Warn("newer checkpoints are set aside; from now on trainer.resume=auto goes on with this run",
			"step", r.state.Step, "set_aside", steps, "folder", dir)
	}
	return nil
}

// experimentName is trainer.experiment, or a name for it.
func experimentName(cfg configs.Config) string {
	name := cfg.Trainer.Experiment
	if name == "" {
		name = cfg.Trainer.Project
		if base := filepath.Base(cfg.Model.Path); cfg.Model.Path != "" {
			name += "-" + base
		}
		for _, e := range cfg.Env {
			name += "-" + e.Called()
		}
	}
	return name
}

// runName is the folder's name under output_dir.
func runName(cfg configs.Config) string {
	name := experimentName(cfg)
	if cfg.Trainer.ExperimentSuffix != "" {
		name += "_" + cfg.Trainer.ExperimentSuffix
	}
	return name
}

// freeName appends a number to a name that is taken.
func freeName(h *Host, root, name string) string {
	for n, try := 2, name; ; n++ {
		if _, err := h.Stat(filepath.Join(root, try)); err != nil {
			return try
		}
		try = name + "-" + strconv.Itoa(n)
	}
}

// finished reports whether the run has done all its steps.
func (r *openedRun) finished(cfg configs.Config, m mode) bool {
	return r.state != nil && r.state.Finished && (!r.lengthened || m == reinforced && cfg.Trainer.TotalSteps > 0 && r.state.Step >= cfg.Trainer.TotalSteps)
}

// inWarmStart reports whether the checkpoint is from the middle of a warm
// start: its optimiser is that of [sft].
func (r *openedRun) inWarmStart() bool {
	return r.state != nil && !r.state.WarmStarted && !r.state.Supervised
}

// modelPath is where the weights come from: the checkpoint, else the
// configuration.
func (r *openedRun) modelPath(h *Host, cfg configs.Config) string {
	if r.checkpoint != nil {
		return filepath.Join(r.checkpoint.Path, rundir.ActorFolder)
	}
	return ModelPath(h, cfg.Model.Path)
}

func (r *openedRun) describe() string {
	if r.state == nil {
		return "starting at step 0"
	}
	return fmt.Sprintf("going on after step %d", r.state.Step)
}

// keepLog also writes what is logged from here on to a file, as JSON lines
// and whatever --quiet keeps off the terminal. What it returns ends that and
// leaves how the run ended as the last line.
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
		if a.Value.Kind() == slog.KindDuration { // 1.5s, not nanoseconds
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
