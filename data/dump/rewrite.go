package dump

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
)

// rewrite replaces the dump in f by one with the episodes to keep, and closes
// f. The new file is written to the same folder and renamed once it is complete
// and synced, so that a crash loses no episode. It is locked before the rename,
// so that no other process writes to it. The map waves has the number of remaining
// episodes of each wave, by the wave's number.
func rewrite(f *os.File, path, weights string, compress bool, keep []bool, waves map[int]int) (*Writer, error) {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	temp := target + ".tmp"
	t, err := openToWrite(temp)
	if err != nil {
		return nil, err
	}
	w, err := newWriter(t, path, weights, compress, 0)
	if err == nil {
		err = errors.Join(copyMode(t, f), t.Truncate(0), w.copy(f, keep, waves), t.Sync())
	}
	if err == nil {
		atRename.Pass()
		err = os.Rename(temp, target)
	}
	if err != nil {
		return nil, errors.Join(err, t.Close(), os.Remove(temp))
	}
	if err := syncDir(filepath.Dir(target)); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return w, f.Close()
}

// copy writes the header of f and the episodes to keep.
func (w *Writer) copy(f *os.File, keep []bool, waves map[int]int) error {
	row := -1 // -1 is the header
	_, _, err := scan(f, func(line []byte) error {
		i := row
		row++
		if i < 0 {
			return w.lines(json.RawMessage(line))
		}
		if i >= len(keep) || !keep[i] {
			return nil
		}
		var l episodeLine
		if err := json.Unmarshal(line, &l); err != nil {
			return err
		}
		if l.Wave > 0 {
			l.WaveSize = waves[l.Wave]
		}
		return w.lines(l)
	})
	return err
}

func copyMode(to, from *os.File) error {
	st, err := from.Stat()
	if err != nil {
		return err
	}
	return to.Chmod(st.Mode().Perm())
}

func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
