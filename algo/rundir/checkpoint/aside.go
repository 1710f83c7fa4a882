package checkpoint

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/openmanus/openmanus/data/crash"
)

var atSetAside = crash.New("checkpoint/set-aside") // before a newer checkpoint is moved away

// SetAside moves the checkpoints after a step from root into another folder, which must
// be on the same file system, and returns their steps. It moves the newest first, so
// that the steps left after a crash have no gap. The caller must hold the run's lock.
func SetAside(root string, step int, to string) ([]int, error) {
	return disk{}.setAside(root, step, to)
}

func (d disk) setAside(root string, step int, to string) ([]int, error) {
	list, err := List(root)
	if err != nil {
		return nil, err
	}
	var moved []int
	for _, e := range slices.Backward(list) {
		if e.Step <= step {
			break
		}
		if err := d.makeAll(to); err != nil {
			return moved, err
		}
		target := filepath.Join(to, filepath.Base(e.Path))
		if exists(target) {
			return moved, fmt.Errorf("%s exists", target)
		}
		atSetAside.Pass()
		if err := d.rename(e.Path, target); err != nil {
			return moved, err
		}
		moved = append(moved, e.Step)
	}
	if len(moved) == 0 {
		return nil, nil
	}
	return moved, errors.Join(d.sync(to), d.sync(root))
}
