package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/openmanus/openmanus/data/crash"
)

// Crash points of a save.
var (
	atBegin    = crash.New("checkpoint/begin")    // before the folder of the checkpoint exists
	atSeal     = crash.New("checkpoint/seal")     // all files are written, none is synced
	atManifest = crash.New("checkpoint/manifest") // half of the manifest is written
	atAside    = crash.New("checkpoint/aside")    // before a checkpoint of the same step is moved aside
	atRename   = crash.New("checkpoint/rename")   // before the folder gets its final name
	atRenamed  = crash.New("checkpoint/renamed")  // after the folder gets its final name
	atPrune    = crash.New("checkpoint/prune")    // before an old checkpoint is renamed for removal
	atRemove   = crash.New("checkpoint/remove")   // half of an old checkpoint is removed
	atSaved    = crash.New("checkpoint/saved")    // after a complete save
	atClean    = crash.New("checkpoint/clean")    // before a leftover is removed
)

// Save writes the checkpoint of a step. It calls fill with an empty folder, syncs and
// hashes the files that fill wrote, and renames the folder: the checkpoint exists from
// the rename on. It replaces a checkpoint of the same step.
//
// Then Save removes the oldest checkpoints until their number is keep (0: it removes none).
// It never removes the new checkpoint. Checkpoints of the steps listed in the last argument
// are not removed either, and do not count towards keep. If Save fails before the rename,
// it leaves no files of the step and older checkpoints do not change. It checks ctx between operations.
func Save(ctx context.Context, root string, step, keep int, fill func(dir string) error, also ...int) error {
	return disk{}.save(ctx, root, step, keep, fill, also...)
}

func (d disk) save(ctx context.Context, root string, step, keep int, fill func(dir string) error, also ...int) error {
	if step < 0 || step > maxStep || keep < 0 {
		return fmt.Errorf("save checkpoint: step %d or keep %d is out of range", step, keep)
	}
	final := filepath.Join(root, folderName(step))
	if err := d.commit(ctx, root, final, step, fill); err != nil {
		return fmt.Errorf("save checkpoint %s: %w", final, err)
	}
	if err := d.prune(root, step, keep, also); err != nil {
		return fmt.Errorf("checkpoint %s is saved, but an old one cannot be removed: %w", final, err)
	}
	atSaved.Pass()
	return nil
}

func (d disk) commit(ctx context.Context, root, final string, step int, fill func(dir string) error) (err error) {
	temp := final + tempSuffix
	if err := d.makeAll(root); err != nil {
		return err
	}
	if err := d.removeAll(temp); err != nil {
		return err
	}
	atBegin.Pass()
	if err := d.mkdir(temp); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.removeAll(temp))
		}
	}()
	if err := d.fill(temp, fill); err != nil {
		return err
	}
	atSeal.Pass()
	if err := d.seal(ctx, temp, step); err != nil {
		return err
	}
	return d.publish(root, temp, final)
}

// seal writes the manifest and makes the folder durable: it syncs the files, then the
// manifest, then the folders, inner ones first.
func (d disk) seal(ctx context.Context, dir string, step int) error {
	if exists(filepath.Join(dir, ManifestFile)) {
		return fmt.Errorf("%s is a reserved name", ManifestFile)
	}
	files, folders, err := scan(ctx, dir)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.New("nothing was written into it")
	}
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := d.sync(filepath.Join(dir, filepath.FromSlash(f.Path))); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(manifest{Format: manifestFormat, Version: manifestVersion, Step: step, Files: files}, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	path := filepath.Join(dir, ManifestFile)
	atManifest.PassAfter(func() { _ = d.write(path, text[:len(text)/2]) })
	if err := d.write(path, text); err != nil {
		return err
	}
	for _, p := range append([]string{path}, folders...) {
		if err := d.sync(p); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// publish renames the sealed folder. It first moves an older checkpoint of that name
// aside, which Clean moves back if the process dies in between.
func (d disk) publish(root, temp, final string) error {
	aside := final + asideSuffix
	replaced := exists(final)
	if replaced {
		if err := d.removeAll(aside); err != nil {
			return err
		}
		atAside.Pass()
		if err := d.rename(final, aside); err != nil {
			return err
		}
	}
	atRename.Pass()
	if err := d.rename(temp, final); err != nil {
		if replaced {
			err = errors.Join(err, d.rename(aside, final))
		}
		return err
	}
	atRenamed.Pass()
	if err := d.sync(root); err != nil {
		return err
	}
	if replaced {
		return d.removeAll(aside)
	}
	return nil
}

// prune removes the oldest checkpoints that exceed the number keep. It renames a folder before it
// removes the files, so that no checkpoint is ever incomplete under its own name.
func (d disk) prune(root string, written, keep int, also []int) error {
	if keep == 0 {
		return nil
	}
	list, err := List(root)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(e Checkpoint) bool { return e.Step != written && slices.Contains(also, e.Step) })
	extra := len(list) - keep
	for _, e := range list {
		if extra <= 0 {
			break
		}
		if e.Step == written {
			continue
		}
		gone := e.Path + goneSuffix
		atPrune.Pass()
		if err := d.rename(e.Path, gone); err != nil {
			return err
		}
		atRemove.PassAfter(func() { _ = d.removeAll(filepath.Join(gone, ManifestFile)) })
		if err := d.removeAll(gone); err != nil {
			return err
		}
		extra--
	}
	return nil
}

// Clean removes the leftovers of a process that died while saving, and returns their
// names. The holder of the run's lock calls it once, at the start.
func Clean(root string) ([]string, error) { return disk{}.clean(root) }

func (d disk) clean(root string) ([]string, error) {
	entries, err := readRoot(root)
	if err != nil {
		return nil, fmt.Errorf("clean checkpoints: %w", err)
	}
	var removed []string
	for _, e := range entries {
		name, left := leftover(e.Name())
		if !left {
			continue
		}
		path, final := filepath.Join(root, e.Name()), filepath.Join(root, name)
		atClean.Pass()
		if e.Name() == name+asideSuffix && !exists(final) { // the process died between the two renames of publish
			if err = d.rename(path, final); err == nil {
				err = d.sync(root)
			}
		} else {
			err = d.removeAll(path)
			removed = append(removed, e.Name())
		}
		if err != nil {
			return removed, fmt.Errorf("clean checkpoints: %w", err)
		}
	}
	return removed, nil
}
