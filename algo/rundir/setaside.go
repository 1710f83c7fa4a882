package rundir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/openmanus/openmanus/algo/rundir/checkpoint"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data/crash"
)

var (
	atAsideMetrics  = crash.New("set-aside/metrics")  // before the metrics are copied
	atAsideRollouts = crash.New("set-aside/rollouts") // before episodes are moved
)

// setAsideFolder holds the checkpoints, episodes and metrics that were replaced when the run
// continued from an older checkpoint.
const setAsideFolder = "set-aside"

// Owns reports whether path is in the folder of the run's checkpoints.
func (r *Folder) Owns(path string) bool {
	parent, err := os.Stat(filepath.Dir(filepath.Clean(path)))
	if err != nil {
		return false
	}
	own, err := os.Stat(r.Checkpoints())
	return err == nil && os.SameFile(parent, own)
}

// SetAside prepares to continue from an older step: it moves later checkpoints and the
// episodes of later steps to set-aside/N, and copies the metrics there. It returns that
// folder and the steps of the moved checkpoints. If step is the newest step, it does nothing
// and returns "".
func (r *Folder) SetAside(step int) (dir string, steps []int, err error) {
	list, err := checkpoint.List(r.Checkpoints())
	if err != nil || len(list) == 0 || list[len(list)-1].Step <= step {
		return "", nil, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("set aside checkpoints after step %d: %w", step, err)
		}
	}()
	if dir, err = r.setAsideRecords(step); err != nil {
		return dir, nil, err
	}
	steps, err = checkpoint.SetAside(r.Checkpoints(), step, filepath.Join(dir, filepath.Base(r.Checkpoints())))
	if err == nil {
		err = r.relink(step)
	}
	return dir, steps, err
}

// SetAsideRecords prepares to begin again in a folder that lacks checkpoints: if its metrics
// have a training step, it moves all episodes to set-aside/N, copies the metrics there and
// returns that folder. Otherwise it does nothing and returns "".
func (r *Folder) SetAsideRecords() (dir string, err error) {
	trained := errors.New("a training step")
	err = track.Read(r.Metrics(), func(l track.Line) error {
		if l.Phase == track.PhaseTrain && l.Step > 0 {
			return trained
		}
		return nil
	})
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return "", nil
	case errors.Is(err, trained):
		dir, err = r.setAsideRecords(-1)
	}
	if err != nil {
		return dir, fmt.Errorf("set aside the records of a run without checkpoints: %w", err)
	}
	return dir, nil
}

// setAsideRecords makes the next folder under set-aside, copies the metrics there and moves
// the episodes of steps after the given step there.
func (r *Folder) setAsideRecords(step int) (dir string, err error) {
	if dir, err = r.freeAside(); err != nil {
		return "", err
	}
	atAsideMetrics.Pass()
	if err := copyFile(r.Metrics(), filepath.Join(dir, filepath.Base(r.Metrics()))); err != nil {
		return dir, err
	}
	atAsideRollouts.Pass()
	return dir, r.moveRollouts(step, filepath.Join(dir, filepath.Base(r.Rollouts())))
}

// relink points the link latest to the checkpoint of step, and removes the link best if
// its checkpoint was moved.
func (r *Folder) relink(step int) error {
	if err := checkpoint.Link(r.Checkpoints(), step, r.Latest()); err != nil {
		return err
	}
	if _, err := os.Stat(r.Best()); os.IsNotExist(err) {
		if err := os.Remove(r.Best()); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// freeAside makes the next folder under set-aside.
func (r *Folder) freeAside() (string, error) {
	root := filepath.Join(r.Dir, setAsideFolder)
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		dir := filepath.Join(root, strconv.Itoa(n))
		if err := os.Mkdir(dir, 0o755); !os.IsExist(err) {
			return dir, err
		}
	}
}

// moveRollouts moves the files with episodes of steps after the given step to a folder.
func (r *Folder) moveRollouts(step int, to string) error {
	entries, err := os.ReadDir(r.Rollouts())
	if err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	for _, e := range entries {
		if n, ok := RolloutStep(e.Name()); ok && n > step {
			if err := os.Rename(filepath.Join(r.Rollouts(), e.Name()), filepath.Join(to, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// stepName matches a name of a file of episodes that contains a step.
var stepName = regexp.MustCompile(`^(?:val_)?step_(\d+)(?:[_.]|$)`)

// RolloutStep finds the step in the name of a file of episodes: step_3.jsonl,
// val_step_3_maze.jsonl. The validation after the last step counts as later than any step.
func RolloutStep(name string) (int, bool) {
	if strings.HasPrefix(name, "val_"+LabelAfter+"_") {
		return math.MaxInt32, true
	}
	m := stepName.FindStringSubmatch(name)
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(m[1])
	return n, err == nil
}

// copyFile copies a file and makes the copy durable. It does nothing if the file does
// not exist.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}
