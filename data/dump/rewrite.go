package dump

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/openmanus/openmanus/data"
)

// rewrite writes the dump in f, whose episodes are these, anew without
// those dropped, and puts it in the place of f, which it closes. What is cut off
// of f is left out too. The new file is locked before it has its name, so that
// no other process writes to it in between.
func rewrite(f *os.File, path, weights string, compress bool, episodes []*data.Episode, dropped map[int]bool) (*Writer, error) {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	temp := target + ".tmp"
	t, err := openToWrite(temp)
	if err != nil {
		return nil, err
	}
	w, err := copyFile(t, f, path, weights, compress, sizesOfWaves(episodes, dropped), dropped, len(episodes))
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

// sizesOfWaves are the sizes of those waves that lose episodes without all
// being lost. What is left of a wave is whole: what is missing is played in
// another one, as what had to be tried again is.
func sizesOfWaves(episodes []*data.Episode, dropped map[int]bool) map[int]int {
	left, changed := map[int]int{}, map[int]bool{}
	for i, e := range episodes {
		if dropped[i] {
			changed[e.Wave] = true
		} else {
			left[e.Wave]++
		}
	}
	sizes := map[int]int{}
	for wave := range changed {
		if wave > 0 {
			sizes[wave] = left[wave]
		}
	}
	return sizes
}

// copyFile writes the header and the first n episodes of f, without those
// dropped, to the empty file t, to the disk.
func copyFile(t, f *os.File, path, weights string, compress bool, sizes map[int]int, dropped map[int]bool, n int) (*Writer, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(t.Truncate(0), t.Chmod(st.Mode().Perm())); err != nil {
		return nil, err
	}
	w, err := newWriter(t, path, weights, compress, 0)
	if err != nil {
		return nil, err
	}
	row := -1 // the header
	_, _, err = scan(f, func(line []byte, _ int64) error {
		i := row
		row++
		if i >= n || dropped[i] {
			return nil
		}
		if i < 0 || len(sizes) == 0 {
			return w.lines(json.RawMessage(line))
		}
		var l episodeLine
		if err := json.Unmarshal(line, &l); err != nil {
			return err
		}
		size, changed := sizes[l.Wave]
		if !changed {
			return w.lines(json.RawMessage(line))
		}
		l.WaveSize = size
		return w.lines(l)
	})
	if err != nil {
		return nil, err
	}
	return w, t.Sync()
}

func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
