package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	folderPrefix = "step_"
	tempSuffix   = ".tmp"
	asideSuffix  = ".old.tmp"
	goneSuffix   = ".gone.tmp"
	maxStep      = 1 << 30
)

// ErrNone is wrapped by Latest's error if no valid checkpoint exists.
var ErrNone = errors.New("no valid checkpoint")

// Checkpoint is a checkpoint folder.
type Checkpoint struct {
	Path string
	Step int
}

// File returns the path of a file or folder of the checkpoint.
func (c *Checkpoint) File(name string) string { return filepath.Join(c.Path, filepath.FromSlash(name)) }

func folderName(step int) string { return fmt.Sprintf("%s%06d", folderPrefix, step) }

// parseName returns the step of a checkpoint folder's name. It accepts only the names
// that Save writes, so that a step has one folder.
func parseName(name string) (int, bool) {
	digits, ok := strings.CutPrefix(name, folderPrefix)
	step, err := strconv.Atoi(digits)
	return step, ok && err == nil && step >= 0 && step <= maxStep && folderName(step) == name
}

// leftover reports whether name is the name of a folder of an unfinished operation, and
// returns the name of the checkpoint folder of this operation.
func leftover(name string) (string, bool) {
	for _, suffix := range []string{asideSuffix, goneSuffix, tempSuffix} {
		if final, ok := strings.CutSuffix(name, suffix); ok {
			_, ok = parseName(final)
			return final, ok
		}
	}
	return "", false
}

// Has reports whether root holds a checkpoint of a step. It does not verify the files.
func Has(root string, step int) bool { return exists(filepath.Join(root, folderName(step))) }

// readRoot lists the folder of the checkpoints. A missing folder is empty.
func readRoot(root string) ([]os.DirEntry, error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return entries, err
}

// List returns the checkpoints under root, oldest first, without verification; none if
// root does not exist.
func List(root string) ([]Checkpoint, error) {
	entries, err := readRoot(root)
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	var out []Checkpoint
	for _, e := range entries {
		if step, ok := parseName(e.Name()); ok && e.IsDir() {
			out = append(out, Checkpoint{Path: filepath.Join(root, e.Name()), Step: step})
		}
	}
	slices.SortFunc(out, func(a, b Checkpoint) int { return cmp.Compare(a.Step, b.Step) })
	return out, nil
}

// Open verifies that every file of a checkpoint folder's manifest has the listed size
// and SHA-256.
func Open(ctx context.Context, path string) (*Checkpoint, error) {
	m, err := readManifest(path)
	if err == nil {
		err = m.verify(ctx, path)
	}
	if err != nil {
		return nil, fmt.Errorf("open checkpoint %s: %w", path, err)
	}
	return &Checkpoint{Path: path, Step: m.Step}, nil
}

// Latest opens the newest valid checkpoint under root. It also returns the errors of
// newer, damaged checkpoints. err wraps ErrNone if no checkpoint is valid.
func Latest(ctx context.Context, root string) (c *Checkpoint, damaged []error, err error) {
	list, err := List(root)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range slices.Backward(list) {
		c, err := Open(ctx, e.Path)
		if err == nil && c.Step != e.Step {
			err = fmt.Errorf("open checkpoint %s: its manifest is the manifest of step %d", e.Path, c.Step)
		}
		if err == nil {
			return c, damaged, nil
		}
		if ctx.Err() != nil { // the context has ended; the checkpoint may be valid
			return nil, damaged, err
		}
		damaged = append(damaged, err)
	}
	return nil, damaged, fmt.Errorf("%w in %s", ErrNone, root)
}
