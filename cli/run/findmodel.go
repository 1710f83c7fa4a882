package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/openmanus/openmanus/agent/llm/hub"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/rundir/checkpoint"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
)

// Found is a model that FindModel found.
type Found struct {
	Name string // the name that was searched
	Path string // a Hugging Face folder, a folder of adapters, or a .gguf file
	Hub  string // name of the model on the Hugging Face hub; "": not a model of the hub

	// The fields below describe the checkpoint that holds the model. They are zero
	// for a model outside a run.
	Run    *rundir.Folder
	Step   int             // finished steps at the checkpoint
	Config *configs.Config // the configuration of the run at the checkpoint
}

// Names of checkpoints after the @ of RUN@CHECKPOINT.
const (
	bestCheckpoint   = "best"
	latestCheckpoint = "latest"
)

// FindModel finds the model of a name:
//   - the path of a Hugging Face folder, of a folder of adapters or of a .gguf file;
//   - the path of a run folder, or its name in the default trainer.output_dir: its best
//     checkpoint, or its latest if no validation has run. RUN@latest, RUN@best, RUN@8
//     and RUN@step_000008 select a checkpoint;
//   - the path of a checkpoint folder;
//   - the name of a model of the Hugging Face hub, as [hub.ParseName] reads it. It is
//     fetched if the cache lacks it.
//
// The returned path may be relative to the working directory, never to h.Dir.
func FindModel(ctx context.Context, h *Host, name string) (Found, error) {
	f, err := LookUpModel(h, name)
	if !errors.Is(err, hub.ErrNotCached) {
		return f, errors.Join(err, context.Cause(ctx))
	}
	n, _ := hub.ParseName(name) // LookUpModel has parsed it
	fetched, err := FetchModel(ctx, h, n, hub.Options{})
	if err != nil {
		return f, fmt.Errorf("no file or folder is named %s%s, and %w", name, beside(h, name), err)
	}
	f.Path = fetched.Path
	return f, nil
}

// LookUpModel is FindModel without access to the network. The error is hub.ErrNotCached
// if FindModel would fetch the model.
func LookUpModel(h *Host, name string) (Found, error) {
	f := Found{Name: name, Path: h.Path(name)}
	_, err := h.Stat(name)
	if err == nil {
		return f, f.open(h, name, "")
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return f, errext.With(errext.Model, "", err)
	}
	base, selector := name, ""
	if i := strings.LastIndexByte(name, '@'); i > 0 {
		base, selector = name[:i], name[i+1:]
	}
	for _, path := range []string{base, filepath.Join(defaultRuns(), base)} {
		if info, err := h.Stat(path); err == nil && info.IsDir() && (path != base || selector != "") && isRun(h, path) {
			return f, f.open(h, path, selector)
		}
	}
	if namesRun(h, base) {
		return f, errext.With(errext.Model, runsHint(h, base), noRun(base))
	}
	n, ok := hub.ParseName(name)
	if !ok {
		return f, errext.With(errext.Model, runsHint(h, base)+"; or give the path of a Hugging Face folder or of a .gguf file, or the name of a model on the hub, such as Qwen/Qwen2.5-0.5B-Instruct", noRun(base))
	}
	f.Hub = n.String()
	settings := HubSettings(h)
	path, err := settings.Find(n)
	switch {
	case err == nil:
		f.Path = path
		return f, nil
	case settings.Offline:
		return f, errext.With(errext.Model, hub.OfflineHint(n), fmt.Errorf("HF_HUB_OFFLINE is set, and %v", err))
	}
	return f, errext.With(errext.Model, "`openmanus model fetch "+n.String()+"` fetches it", err)
}

// beside lists the contents of the folder in which the missing path name would be, if there is such a folder.
func beside(h *Host, name string) string {
	entries, err := os.ReadDir(h.Path(filepath.Dir(name)))
	if err != nil {
		return "" // name is only that of a model of the hub
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return fmt.Sprintf(" (%s has %s)", filepath.Dir(name), cmp.Or(abbreviated(names), "no files"))
}

// isRun reports whether path is a run folder.
func isRun(h *Host, path string) bool {
	info, err := h.Stat((&rundir.Folder{Dir: path}).Checkpoints())
	return err == nil && info.IsDir() && !isModel(h, path)
}

// isCheckpoint reports whether path is a checkpoint folder.
func isCheckpoint(h *Host, path string) bool {
	info, err := h.Stat(filepath.Join(path, rundir.ActorFolder))
	return err == nil && info.IsDir() && !isModel(h, path)
}

// isModel reports whether a folder holds a model or adapters.
func isModel(h *Host, path string) bool {
	if model.IsFolder(h.Path(path)) {
		return true
	}
	_, err := h.Stat(filepath.Join(path, "adapter_config.json"))
	return err == nil
}

// open completes f with the model at an existing path.
func (f *Found) open(h *Host, path, selector string) error {
	switch {
	case isRun(h, path):
		c, err := selectCheckpoint(h.Path(path), selector)
		if err != nil {
			return err
		}
		return f.inCheckpoint(h, c.Path)
	case isCheckpoint(h, path):
		return f.inCheckpoint(h, h.Path(path))
	}
	if dir := filepath.Clean(h.Path(path)); filepath.Base(dir) == rundir.ActorFolder && isCheckpoint(h, filepath.Dir(path)) {
		return f.inCheckpoint(h, filepath.Dir(dir))
	}
	return nil
}

// inCheckpoint completes f with the model of a checkpoint folder.
func (f *Found) inCheckpoint(h *Host, dir string) error {
	f.Path = filepath.Join(dir, rundir.ActorFolder)
	state, err := rundir.ReadState(dir)
	if errors.Is(err, fs.ErrNotExist) { // a copy of the weights without the rest of the checkpoint
		return nil
	}
	if err != nil {
		return errext.With(errext.Model, "", err)
	}
	file := filepath.Join(dir, rundir.ConfigFile)
	text, err := h.ReadFile(file, maxSavedConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return errext.With(errext.Model, "", err)
	}
	cfg, err := Schema.LoadSaved(file, text)
	if err != nil {
		return errext.With(errext.Input, "", fmt.Errorf("configuration of the checkpoint: %w", err))
	}
	real, err := filepath.EvalSymlinks(dir) // latest and best are links
	if err != nil {
		return errext.With(errext.Disk, "", err)
	}
	f.Run, f.Step, f.Config = &rundir.Folder{Dir: filepath.Dir(filepath.Dir(real))}, state.Step, &cfg
	return nil
}

// selectCheckpoint returns the checkpoint of a run that selector names. With an empty selector it
// returns the best one, or the latest if the run has no best one. It does not verify hashes.
func selectCheckpoint(run, selector string) (checkpoint.Checkpoint, error) {
	folder := &rundir.Folder{Dir: run}
	list, err := checkpoint.List(folder.Checkpoints())
	if err != nil {
		return checkpoint.Checkpoint{}, errext.With(errext.Disk, "", err)
	}
	if len(list) == 0 {
		return checkpoint.Checkpoint{}, errext.With(errext.Model, "wait for its first checkpoint (trainer.save_every), or give a model", fmt.Errorf("run %s has no checkpoint", run))
	}
	latest := list[len(list)-1]
	var steps []int
	for _, c := range list {
		steps = append(steps, c.Step)
	}
	var want int
	switch selector {
	case latestCheckpoint:
		return latest, nil
	case "", bestCheckpoint:
		state, err := rundir.ReadState(latest.Path)
		if err != nil {
			return latest, errext.With(errext.Disk, "", err)
		}
		if state.Best == nil {
			if selector == "" {
				return latest, nil
			}
			return latest, errext.With(errext.Model, "give "+run+"@"+latestCheckpoint, fmt.Errorf("run %s has no best checkpoint: no validation has run", run))
		}
		want = state.Best.Step
		if selector == "" && !checkpoint.Has(folder.Checkpoints(), want) {
			return latest, nil
		}
	default:
		if want, err = strconv.Atoi(strings.TrimPrefix(selector, "step_")); err != nil {
			return latest, errext.With(errext.Usage, "give best, latest, or the number of a step: "+FormatIndices(steps), fmt.Errorf("%s@%s names no checkpoint", run, selector))
		}
	}
	for _, c := range list {
		if c.Step == want {
			return c, nil
		}
	}
	return latest, errext.With(errext.Model, "its checkpoints have the steps "+FormatIndices(steps), fmt.Errorf("run %s has no checkpoint of step %d", run, want))
}
