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

// Entry is a checkpoint folder that has not been verified.
type Entry struct {
	Path string
	Step int
}

// Checkpoint is a verified checkpoint: every file has the hash of the manifest.
type Checkpoint struct {
	Path  string
	Step  int
	Files []File
}

// File returns the path of a file or folder of the checkpoint.
func (c *Checkpoint) File(name string) string { return filepath.Join(c.Path, filepath.FromSlash(name)) }

// Refused is a damaged checkpoint, with the reason.
type Refused struct {
	Path string
	Err  error
}

func folderName(step int) string { return fmt.Sprintf("%s%06d", folderPrefix, step) }

// parseName returns the step of a checkpoint folder's name. It accepts only names that
// Save gives, so that a step has one folder.
func parseName(name string) (int, bool) {
	digits, ok := strings.CutPrefix(name, folderPrefix)
	step, err := strconv.Atoi(digits)
	return step, ok && err == nil && step >= 0 && step <= maxStep && folderName(step) == name
}

// leftover reports whether a folder's name is of an unfinished operation, and returns
// the name of its checkpoint folder.
func leftover(name string) (string, bool) {
	for _, suffix := range []string{asideSuffix, goneSuffix, tempSuffix} {
		if final, ok := strings.CutSuffix(name, suffix); ok {
			_, ok = parseName(final)
			return final, ok
		}
	}
	return "", false
}

// Has reports whether root holds a checkpoint of a step. It does not verify it.
func Has(root string, step int) bool {
	_, err := os.Stat(filepath.Join(root, folderName(step)))
	return err == nil
}

// List returns the checkpoints under root, oldest first, without verification; none if
// root does not exist.
func List(root string) ([]Entry, error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	var out []Entry
	for _, e := range entries {
		if step, ok := parseName(e.Name()); ok && e.IsDir() {
			out = append(out, Entry{Path: filepath.Join(root, e.Name()), Step: step})
		}
	}
	slices.SortFunc(out, func(a, b Entry) int { return cmp.Compare(a.Step, b.Step) })
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
	return &Checkpoint{Path: path, Step: m.Step, Files: m.Files}, nil
}

// Latest opens the newest valid checkpoint under root, and also returns newer damaged
// ones, with the reason. The error wraps ErrNone if no checkpoint is valid.
func Latest(ctx context.Context, root string) (*Checkpoint, []Refused, error) {
	list, err := List(root)
	if err != nil {
		return nil, nil, err
	}
	var refused []Refused
	for _, e := range slices.Backward(list) {
		c, err := Open(ctx, e.Path)
		if err == nil && c.Step != e.Step {
			err = fmt.Errorf("open checkpoint %s: its manifest is of step %d", e.Path, c.Step)
		}
		if err == nil {
			return c, refused, nil
		}
		if ctx.Err() != nil { // not the checkpoint's fault
			return nil, refused, err
		}
		refused = append(refused, Refused{Path: e.Path, Err: err})
	}
	return nil, refused, fmt.Errorf("%w in %s", ErrNone, root)
}
