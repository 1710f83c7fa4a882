package checkpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/openmanus/openmanus/data/crash"
)

var atSetAside = crash.New("checkpoint/set-aside") // before a newer checkpoint is moved away

// SetAside moves the checkpoints after a step from root into the folder to, which must
// be on the same file system, and returns them. It moves the newest first, so that a
// crash leaves a run up to some step. The caller must hold the run's lock.
func SetAside(root string, step int, to string) ([]Entry, error) {
	return disk{}.setAside(root, step, to)
}

func (d disk) setAside(root string, step int, to string) ([]Entry, error) {
	list, err := List(root)
	if err != nil {
		return nil, err
	}
	var moved []Entry
	for _, e := range slices.Backward(list) {
		if e.Step <= step {
			break
		}
		if err := d.makeAll(to); err != nil {
			return moved, fmt.Errorf("set checkpoints aside: %w", err)
		}
		target := filepath.Join(to, filepath.Base(e.Path))
		if _, err := os.Lstat(target); err == nil {
			return moved, fmt.Errorf("set checkpoints aside: %s exists", target)
		}
		atSetAside.Pass()
		if err := d.rename(e.Path, target); err != nil {
			return moved, fmt.Errorf("set checkpoints aside: %w", err)
		}
		moved = append(moved, Entry{Path: target, Step: e.Step})
	}
	if len(moved) == 0 {
		return nil, nil
	}
	for _, dir := range []string{to, root} {
		if err := d.sync(dir); err != nil {
			return moved, fmt.Errorf("set checkpoints aside: %w", err)
		}
	}
	return moved, nil
}
