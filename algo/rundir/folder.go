package rundir

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/algo/rundir/checkpoint"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/crash"
	"github.com/openmanus/openmanus/data/dump"
)

// Crash points before and after the writing of episodes.
var (
	atRollouts        = crash.New("rollouts/write")
	atRolloutsWritten = crash.New("rollouts/written")
)

// Folder is the folder of a run: config.toml, metrics.jsonl, run.log,
// rollouts/step_N.jsonl (.zst if compressed), checkpoints/ with the links latest and
// best beside it, and, if needed, servers/ with the logs of started servers, base/ with
// the base model of adapters, reference/ with the frozen reference, and bad-steps/ with
// the batches of skipped optimiser steps.
type Folder struct {
	Dir string
	// KeepRollouts is the number of newest steps whose episodes are kept. 0: all; -1:
	// none, and no episodes of validations either.
	KeepRollouts     int
	CompressRollouts bool // compress the files of episodes with zstd
}

// The paths of a run folder's parts.
func (r *Folder) Metrics() string     { return filepath.Join(r.Dir, "metrics.jsonl") }
func (r *Folder) Config() string      { return filepath.Join(r.Dir, ConfigFile) }
func (r *Folder) Checkpoints() string { return filepath.Join(r.Dir, "checkpoints") }
func (r *Folder) Rollouts() string    { return filepath.Join(r.Dir, "rollouts") }
func (r *Folder) Log() string         { return filepath.Join(r.Dir, "run.log") }
func (r *Folder) Servers() string     { return filepath.Join(r.Dir, "servers") }
func (r *Folder) Latest() string      { return filepath.Join(r.Dir, "latest") } // link to the newest checkpoint
func (r *Folder) Best() string        { return filepath.Join(r.Dir, "best") }   // link to the best checkpoint
func (r *Folder) Reference() string   { return filepath.Join(r.Dir, "reference") }
func (r *Folder) Base() string        { return filepath.Join(r.Dir, "base") } // base model of adapters, if model.path is not a Hugging Face folder
func (r *Folder) BadSteps() string    { return filepath.Join(r.Dir, "bad-steps") }

// Make creates the folders.
func (r *Folder) Make() error {
	for _, dir := range []string{r.Checkpoints(), r.Rollouts()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make the run folder: %w", err)
		}
	}
	return nil
}

// Clear removes the folder's contents, except the lock, if they are only the
// configuration, the log, the base of adapters, empty files and, unless keepServers is
// set, the logs of servers. Clear reports whether it removed the contents.
func (r *Folder) Clear(keepServers bool) (bool, error) {
	var empty []string // folders and files to remove, parents first
	keep := false
	err := filepath.WalkDir(r.Dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == r.Dir, path == filepath.Join(r.Dir, checkpoint.LockFile):
			return nil
		case e.IsDir(), path == r.Config(), path == r.Log():
		case inside(path, r.Base()), !keepServers && inside(path, r.Servers()):
		default:
			info, err := e.Info()
			if err != nil {
				return err
			}
			if !info.Mode().IsRegular() || info.Size() > 0 {
				keep = true
				return fs.SkipAll
			}
		}
		empty = append(empty, path)
		return nil
	})
	if err != nil || keep {
		return false, err
	}
	for _, path := range slices.Backward(empty) {
		if err := os.Remove(path); err != nil {
			return false, err
		}
	}
	return true, nil
}

// inside reports whether path is in the folder dir.
func inside(path, dir string) bool { return strings.HasPrefix(path, dir+string(filepath.Separator)) }

// WriteEpisodes writes the episodes of a training step to rollouts/step_N.jsonl. It
// replaces the file of an earlier attempt, and removes files beyond KeepRollouts.
func (r *Folder) WriteEpisodes(step int, episodes []*data.Episode) error {
	if err := r.write(fmt.Sprintf("step_%d.jsonl", step), episodes); err != nil {
		return err
	}
	if err := r.pruneRollouts(step); err != nil {
		return fmt.Errorf("remove old rollouts: %w", err)
	}
	return nil
}

// WriteValidation writes the episodes of a validation to
// rollouts/val_LABEL_ENV.jsonl.
func (r *Folder) WriteValidation(label, env string, episodes []*data.Episode) error {
	return r.write(fmt.Sprintf("val_%s_%s.jsonl", strings.ReplaceAll(label, " ", "_"), env), episodes)
}

func (r *Folder) write(name string, episodes []*data.Episode) error {
	if r.KeepRollouts < 0 {
		return nil
	}
	other := name + compressedExt // name of the file under the other setting of CompressRollouts
	if r.CompressRollouts {
		name, other = other, name
	}
	atRollouts.Pass()
	if err := dump.WriteFile(filepath.Join(r.Rollouts(), name), dump.Header{}, episodes); err != nil {
		return fmt.Errorf("write rollouts: %w", err)
	}
	atRolloutsWritten.Pass()
	if err := os.Remove(filepath.Join(r.Rollouts(), other)); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("write rollouts: %w", err)
	}
	return nil
}

// compressedExt is the last extension of the names of compressed dumps.
const compressedExt = ".zst"

// pruneRollouts removes the episodes of steps that are KeepRollouts or more before step.
// It keeps validations.
func (r *Folder) pruneRollouts(step int) error {
	if r.KeepRollouts <= 0 {
		return nil
	}
	entries, err := os.ReadDir(r.Rollouts())
	if err != nil {
		return err
	}
	for _, e := range entries {
		n, ok := RolloutStep(e.Name())
		if !ok || !strings.HasPrefix(e.Name(), "step_") || n > step-r.KeepRollouts {
			continue
		}
		if err := os.Remove(filepath.Join(r.Rollouts(), e.Name())); err != nil {
			return err
		}
	}
	return nil
}
